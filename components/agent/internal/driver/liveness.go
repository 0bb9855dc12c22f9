package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// livenessOf derives the liveness of the member's own process from a call that ended with err, and
// returns the reason for people. Without an error the process answered. Every error that is neither
// a timeout nor a failed connect came from a process, too: a refused TLS handshake, an untrusted
// certificate, an answer in another protocol, a closed connection.
func livenessOf(err error) (Liveness, string) {
	var op *net.OpError
	switch {
	case err == nil:
		return LivenessAlive, ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return LivenessRefused, "the connection is refused: no process listens"
	case isTimeout(err):
		return LivenessUnknown, fmt.Sprintf("no answer within %s", observeBudget)
	case errors.Is(err, context.Canceled), errors.As(err, &op) && op.Op == "dial":
		return LivenessUnknown, "no answer: " + err.Error()
	}
	return LivenessAlive, err.Error()
}

// isTimeout: no answer came in time.
func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
