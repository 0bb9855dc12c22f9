// Package relock makes locks: it asks apt-get what packages need today, pip what wheels
// need, and builds programs of others for their digests. apt checks the archive's
// signatures; from there on everything goes by digest.
package relock
