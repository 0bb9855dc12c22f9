// Package address gives groups their part of the cluster's virtual addresses: blocks by
// need, which lie apart from each other, stay where they are, and are told by a record
// each. It decides; the leader writes.
package address
