// Package sandbox composes the command line of bubblewrap that runs one service:
// the host's files read-only, the service's mounts on top, private mount, pid,
// ipc and uts namespaces, and the capabilities a container engine would leave.
//
// The root directory is a tmpfs with the host's entries bound into it, so that
// mount points such as /data can exist. A mount point whose parent is missing on
// the host makes that parent a tmpfs of the same kind.
package sandbox
