// Package world is the cluster that is measured: its Slots, the records that a leader
// would have written about them, and its simulated machines.
package world
