//go:build !linux

package forward

import "net"

// wasReset returns false where Linux's socket information does not exist.
func wasReset(*net.TCPConn) bool { return false }
