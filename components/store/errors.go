package store

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels in addition to those of the contract in store.go.
var (
	// ErrBadKey: the key is not a clean path, or a key builder refused a segment.
	ErrBadKey = errors.New("bad key")
	// ErrUnknownKey: no record of the table has this key.
	ErrUnknownKey = errors.New("key is not in the table of records")
	// ErrBadOp: the transaction cannot be sent as it is; nothing was written.
	ErrBadOp = errors.New("bad transaction")
	// ErrDenied: the token may not do this; nothing was written.
	ErrDenied = errors.New("permission denied")
	// ErrTokenUnknown comes with ErrDenied: Consul does not know the token. For a moment a server
	// that was elected right after its start returns this for existing tokens too: it leads before
	// it has read its own log to the end.
	ErrTokenUnknown = errors.New("token not known")
	// ErrUnavailable: Consul has no leader now, or a server on the way failed. Nothing was read or
	// written, and a retry may succeed in a moment.
	ErrUnavailable = errors.New("consul cannot answer now")
	// ErrTermRegression: the Term went down, so the store was restored from an older state; or the
	// Term is missing while records of its leaders exist. No leader may act until the Term is above
	// the highest one seen (threat model 9.4, rule 7). An operator raises it with the record at
	// control/recover.
	ErrTermRegression = errors.New("EPOCH_REGRESSION: term went backwards")
	// ErrStateRegression: the records are older than the highest state seen, possibly within one
	// Term. No leader may act until an operator writes the record at control/recover.
	ErrStateRegression = errors.New("EPOCH_REGRESSION: the records went back")
	// ErrTermExhausted: there is no next Term. No leader acts any more.
	ErrTermExhausted = errors.New("EPOCH_REGRESSION: no term is left")
	// ErrReleased is the cause of a Lease's context after its holder released it.
	ErrReleased = errors.New("lease released")
)

// FailedOp is one operation that made a transaction roll back.
type FailedOp struct {
	// Index in the slice given to Commit.
	Index int
	Op    Op
	What  string
}

// ConflictError lists the failed checks of a transaction. It Is ErrConflict; it Is ErrFenced too
// when a check on a lease key failed.
type ConflictError struct {
	Failed []FailedOp
}

// Error names every failed check.
func (e *ConflictError) Error() string {
	whats := make([]string, 0, len(e.Failed))
	for _, f := range e.Failed {
		whats = append(whats, fmt.Sprintf("%s %s: %s", f.Op.Kind, f.Op.Key, f.What))
	}
	kind := ErrConflict
	if e.Fenced() {
		kind = ErrFenced
	}
	return fmt.Sprintf("%v: %s", kind, strings.Join(whats, "; "))
}

// Fenced reports whether a fence was among the failed checks.
func (e *ConflictError) Fenced() bool {
	for _, f := range e.Failed {
		if f.Op.isFence() {
			return true
		}
	}
	return false
}

// Is makes errors.Is work for ErrConflict and ErrFenced.
func (e *ConflictError) Is(target error) bool {
	return target == ErrConflict || (target == ErrFenced && e.Fenced())
}

// isFence reports whether o is one of the checks that Lease.Fence returns.
func (o Op) isFence() bool {
	return (o.Kind == OpCheckSession && o.Key == LeaseKey) || (o.Kind == OpCheckIndex && o.Key == TermKey)
}
