// Package credcache keeps a Boot's credentials in memory-backed storage, so that the next worker of
// the same Boot continues with them without any request. The file is sealed under a key derived
// from the Boot key: it is useless to another Boot and to any other reader. A truncated file counts
// as missing.
package credcache
