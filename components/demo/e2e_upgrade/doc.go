// Package e2e_upgrade proves on a local cloud that real members of a database move to other versions of their software
// under load, and that a version which cannot open their disks costs one replica at most.
package e2e_upgrade
