// Package refusal is the one error type of this module, so that the packages
// below attest answer with the same codes as attest itself.
package refusal

import (
	"fmt"

	"cadre.dev/core/policy"
)

// Error is the reason for rejecting Evidence, or an input for its judgement.
type Error struct {
	// Code is the stable reason.
	Code policy.Code
	// Message names the part and its fault; it holds no secret.
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Retryable reports that the same Evidence may be accepted later: nothing is
// wrong with it, something here was missing.
func (e *Error) Retryable() bool { return e.Code.Class() == policy.ClassRetry }

// New makes an Error.
func New(code policy.Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
