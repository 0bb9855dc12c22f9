package load

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// coded is the code of database errors: SQLSTATE for PostgreSQL.
type coded interface{ SQLState() string }

// errorClass folds an error into one of few texts, so that they can be counted.
func errorClass(err error) string {
	var state coded
	var timeout net.Error
	switch {
	case errors.As(err, &state):
		return "SQLSTATE " + state.SQLState()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "deadline exceeded"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, net.ErrClosed):
		return "connection closed"
	default:
		return "other: " + truncate(err.Error(), 120)
	}
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}
