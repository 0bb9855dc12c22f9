// Package address gives groups their part of the cluster's virtual addresses: blocks of the needed
// size, apart from each other, at fixed places, with one record each. The package decides; the
// leader writes.
package address
