package admit

import (
	"context"
	"math/rand/v2"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/overlay/grpcconn"
	"google.golang.org/grpc/status"
)

// AdmitUntil repeats Admit until it succeeds, ctx ends, or this Boot has ended (*EndedError).
// Pauses grow from 0.2 s, each drawn from the whole range so that a thousand Boots that start
// together spread out, and are never shorter than a coordinator requests. A rejection is logged
// when its code changes: a Slot that waits for its turn logs once.
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

// waitsFor names the event that the admission waits for.
func waitsFor(code string) string {
	switch policy.Code(code) { //nolint:exhaustive // the rest has no better word
	case policy.CodeInstanceConflict:
		return "the end of the lease of the boot that was this slot before"
	case policy.CodeSlotUnknown, policy.CodeInstanceMismatch:
		return "the leader to bind this instance to a slot"
	case policy.CodeRevisionNotAllowed, policy.CodeRevisionNotApproved, policy.CodeRevisionBelowFloor:
		return "the slot's policy to allow the revision that this CVM runs"
	case policy.CodeMachineShared, policy.CodeMachineNotListed:
		return "a placement of the group that permits this machine"
	case policy.CodeSecretNoValue:
		return "an operator to give the value of a secret"
	case policy.CodeMachineUnknown:
		return "the machines of the group's other members to be recorded"
	case policy.CodeClusterMismatch:
		return "a coordinator of the cluster ID that this CVM belongs to"
	case policy.CodeOverloaded, policy.CodeRateLimited:
		return "a coordinator with less to do"
	case policy.CodeGateUnreadable, policy.CodeVerifierUnavailable, policy.CodeCollateralUnavailable:
		return "a coordinator that can decide"
	}
	return "another answer"
}

// pauseAfter is how long to wait after err at the given attempt, from 1: full jitter over a range
// that doubles, on top of the coordinator's requested pause.
func pauseAfter(err error, attempt int) time.Duration {
	span := policy.RetrySpan(policy.Code(Code(err)), attempt)
	return grpcconn.RetryAfter(err, policy.RetryWait) + rand.N(span) + time.Millisecond //nolint:gosec // jitter is no secret
}

// Code returns the threat model's code that err carries, else the gRPC code's
// name, else "unreachable".
func Code(err error) string {
	if found := policy.CodeIn(err.Error()); found != "" {
		return found
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "unreachable"
}
