//go:build !linux

package forward

import "net"

// wasReset cannot tell where Linux's socket information does not exist.
func wasReset(*net.TCPConn) bool { return false }
