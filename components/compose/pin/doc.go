// Package pin writes digests into a compose file without touching anything else:
// it changes the bytes of the image words at their places and keeps comments,
// quotes and order. It asks no registry; the caller gives the digests.
package pin
