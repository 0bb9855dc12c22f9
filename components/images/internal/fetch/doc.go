// Package fetch keeps files by their SHA-256 and gets those that are missing: packages
// from the machine's own mirrors of Debian, wheels from its own Python index, both else
// from the public ones. Nothing that was fetched is used before its digest is checked, so
// mirrors are asked for bytes and trusted for nothing.
package fetch
