// Package rootfs turns the layers of a container image into a directory, and finds
// paths in such a directory as a process that has it as its root would.
//
// Layers are foreign text. Whatever an archive says, nothing outside the directory is
// read or written: every step goes through os.Root. What an honest image has no need
// for is refused, and so is what would take more than Limits.
package rootfs
