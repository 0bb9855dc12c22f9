// Package fetch keeps files by their SHA-256 and gets the missing ones: packages from the machine's
// own mirrors of Debian, wheels from its own Python index, and both otherwise from the public ones; jars
// from Maven Central.
// The digest of each fetched file is checked before its use, so mirrors deliver bytes and need no
// trust.
package fetch
