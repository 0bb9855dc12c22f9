//go:build !linux

package carrier

import "net"

// Tune does nothing where Linux's socket options do not exist.
func Tune(net.Conn) {}
