// Package e2e_upgrade proves on a local cloud that real members of PostgreSQL and Consul move to other versions
// under load, and that a version which cannot open their disks costs one replica at most.
package e2e_upgrade
