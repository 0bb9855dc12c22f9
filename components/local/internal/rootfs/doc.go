// Package rootfs turns the layers of a container image into a directory, and resolves paths in such
// a directory like a process that has it as its root.
//
// Layers are foreign text. No archive can read or write outside the directory: every step goes
// through os.Root. Features that an honest image does not need are rejected, and so are contents
// above Limits.
package rootfs
