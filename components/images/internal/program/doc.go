// Package program builds the Go programs of images: static, without paths, times and
// settings of the machine, by the toolchain that is pinned. The same sources give the
// same bytes on every machine.
package program
