// Package deb reads Debian packages: the ar archive, its control fields, and the files of
// its data archive. No script of a package is read or run.
//
// A package is foreign even when its digest is the locked one: sizes are bounded before
// anything is kept, and entries are files, directories and links only.
package deb
