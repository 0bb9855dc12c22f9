//go:build !linux

package segment

import "syscall"

// Small is nil where the size of segments is the kernel's own affair.
var Small func(network, address string, c syscall.RawConn) error
