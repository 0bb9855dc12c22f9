package admit

import (
	"context"
	"math/rand/v2"
	"regexp"
	"time"

	"cadre.dev/core/policy"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

const (
	firstPause = 200 * time.Millisecond
	// maxPause between two tries while coordinators cannot be reached or have too
	// much to do; turnPause while they answer that it is not this Boot's turn, which
	// may change at any moment and costs them nothing.
	maxPause  = 10 * time.Second
	turnPause = 3 * time.Second
	// maxWait is the longest time that a coordinator may put a Boot off for.
	maxWait = 30 * time.Second
)

// AdmitUntil repeats Admit until it succeeds or ctx ends, or this Boot is told
// that its name is spent (*EndedError). Pauses grow from 0.2 s, each drawn from
// the whole range so that a thousand Boots that start together spread out, and are
// never shorter than a coordinator asks for. A refusal is logged when its code
// changes: a Slot that waits for its turn says so once.
func (c *Client) AdmitUntil(ctx context.Context) (Admitted, error) {
	last := ""
	for attempt := 1; ; attempt++ {
		admitted, err := c.Admit(ctx)
		if err == nil {
			c.cfg.Log.Info("admitted", "group", admitted.ID.Group, "slot", admitted.ID.Slot,
				"revision", admitted.Grant.GetRevision(), "attempts", attempt)
			return admitted, nil
		}
		if ctx.Err() != nil {
			return Admitted{}, context.Cause(ctx)
		}
		code := Code(err)
		if code == string(policy.CodeIncarnationStale) {
			return Admitted{}, &EndedError{Code: code, Message: err.Error()}
		}
		if code != last {
			last = code
			c.cfg.Log.Warn("admission is waiting", "code", code, "for", waitsFor(code), "attempt", attempt, "error", err)
		}
		timer := time.NewTimer(pauseAfter(err, attempt))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Admitted{}, context.Cause(ctx)
		}
	}
}

// waitsFor says what must happen before the Boot is admitted.
func waitsFor(code string) string {
	switch policy.Code(code) { //nolint:exhaustive // the rest has no better word
	case policy.CodeInstanceConflict:
		return "the end of the lease of the boot that was this slot before"
	case policy.CodeSlotUnknown, policy.CodeInstanceMismatch:
		return "the leader to bind this instance to a slot"
	case policy.CodeRevisionNotAllowed, policy.CodeRevisionNotApproved, policy.CodeRevisionBelowFloor:
		return "the slot's policy to allow what this CVM runs"
	case policy.CodeOverloaded, policy.CodeRateLimited:
		return "a coordinator with less to do"
	case policy.CodeGateUnreadable, policy.CodeVerifierUnavailable, policy.CodeCollateralUnavailable:
		return "a coordinator that can decide"
	}
	return "another answer"
}

// pauseAfter is how long to wait after err at the given attempt, from 1: full
// jitter over a range that doubles, on top of what the coordinator asked for.
func pauseAfter(err error, attempt int) time.Duration {
	most := maxPause
	switch policy.Code(Code(err)) { //nolint:exhaustive // the rest is not about whose turn it is
	case policy.CodeInstanceConflict, policy.CodeSlotUnknown, policy.CodeInstanceMismatch, policy.CodeRevisionNotAllowed,
		policy.CodeGateUnreadable, policy.CodeAdmissionRejected, policy.CodeNonceInvalid:
		most = turnPause
	}
	span := min(firstPause<<min(attempt-1, 16), most)
	return retryAfter(err) + rand.N(span) + time.Millisecond //nolint:gosec // jitter is no secret
}

// retryAfter is the time that the coordinator asked for, bounded.
func retryAfter(err error) time.Duration {
	s, ok := status.FromError(err)
	if !ok {
		return 0
	}
	for _, detail := range s.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return min(max(info.GetRetryDelay().AsDuration(), 0), maxWait)
		}
	}
	return 0
}

var codePattern = regexp.MustCompile(`\b[A-Z]{2,}(?:_[A-Z]+)+\b`)

// Code returns the threat model's code that err carries, else the gRPC code's
// name, else "unreachable".
func Code(err error) string {
	if found := codePattern.FindString(err.Error()); found != "" {
		return found
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "unreachable"
}
