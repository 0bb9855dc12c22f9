package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/attest"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Codes that admission itself answers with (threat model, section 10).
const (
	codeRejected   policy.Code = "ADMISSION_REJECTED"
	codeBadRequest policy.Code = "BAD_REQUEST"
	codeTooLarge   policy.Code = "REQUEST_TOO_LARGE"
	codeNonce      policy.Code = "NONCE_INVALID"
	codeContext    policy.Code = "NONCE_WRONG_CONTEXT"
	codeChannel    policy.Code = "CHANNEL_BINDING_MISMATCH"
	codeStatement  policy.Code = "STATEMENT_MISMATCH"
	codeCanonical  policy.Code = "STATEMENT_NONCANONICAL"
	codeUnknown    policy.Code = "SLOT_UNKNOWN"
	codeConflict   policy.Code = "INSTANCE_CONFLICT"
	codeStale      policy.Code = "INCARNATION_STALE"
	codeUnreadable policy.Code = "GATE_UNREADABLE"
	codeOverloaded policy.Code = "OVERLOADED"
	codeRate       policy.Code = "RATE_LIMITED"
	codeVersion    policy.Code = "UNSUPPORTED_VERSION"
	codeVerifier   policy.Code = "VERIFIER_UNAVAILABLE"
	codeTokens     policy.Code = "TOKEN_ISSUE_FAILED"
	codeQuote      policy.Code = "QUOTE_INVALID"
	codeKey        policy.Code = "CSR_FORBIDDEN"
)

// refusal is why a Boot was not admitted.
type refusal struct {
	code    policy.Code
	message string
	// verified: the evidence was genuine, so the caller may learn the precise code.
	verified bool
	// retry: the same request may succeed later, after the time wait if it is set.
	retry bool
	wait  time.Duration
	// holder is the Boot that holds the Slot, if it causes the refusal.
	holder store.BootLease
	cause  error // for errors.Is inside of this package
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.message }

func refuse(code policy.Code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

func (r *refusal) later() *refusal            { r.retry = true; return r }
func (r *refusal) because(err error) *refusal { r.cause = err; return r }
func (r *refusal) known() *refusal            { r.verified = true; return r }

// in sets the retry delay.
func (r *refusal) in(wait time.Duration) *refusal { r.wait = wait; return r }

// public returns the error for the caller. A code about the caller's own request, or a retryable
// one, helps no attacker and is returned as it is.
func (r *refusal) public() error {
	switch {
	case r.retry:
		return r.status(codes.Unavailable)
	case r.code == codeBadRequest, r.code == codeTooLarge, r.code == codeNonce, r.code == codeCanonical, r.code == codeVersion:
		return status.Error(codes.InvalidArgument, r.Error())
	case r.verified:
		return r.status(codes.PermissionDenied)
	}
	return status.Error(codes.PermissionDenied, string(codeRejected)+": the evidence was not accepted; the coordinator's log and the slot's record say why")
}

// status returns the refusal with its retry delay.
func (r *refusal) status(code codes.Code) error {
	out := status.New(code, r.Error())
	if r.wait > 0 {
		if with, err := out.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.wait)}); err == nil {
			out = with
		}
	}
	return out.Err()
}

// asRefusal takes the code out of a verification error.
func asRefusal(err error) *refusal {
	if e, ok := errors.AsType[*attest.Error](err); ok {
		return &refusal{code: e.Code, message: e.Message, retry: e.Retryable()}
	}
	return &refusal{code: codeQuote, message: err.Error()}
}

// The intervals between two written refusals of one Slot. A caller that knows an instance ID can
// cause a refusal without genuine evidence. Such a refusal must not displace the refusals of the
// real CVM.
const (
	refusalEvery  = 2 * time.Second
	unprovenEvery = 20 * time.Second
	// provenKept is how long a proven refusal is protected from an unproven one.
	provenKept = 15 * time.Minute
)

// noted is when refusals of one Slot were last written.
type noted struct {
	any, verified time.Time
}

// due reports whether r is to be written, and records that it is.
func (n *noted) due(r *refusal, now time.Time) bool {
	if r.verified {
		if now.Sub(n.verified) < refusalEvery {
			return false
		}
		n.verified = now
	} else if now.Sub(n.any) < unprovenEvery {
		return false
	}
	n.any = now
	return true
}

// maxRefusalText bounds the stored message.
const maxRefusalText = 1 << 10

// after returns the record of the refusal next that follows before, with the time since when its
// Boot gets the same refusal. write is false while before is proven and recent and next is
// unproven.
func after(before, next policy.Refusal) (_ policy.Refusal, write bool) {
	if before.Proven && !next.Proven && next.At.Sub(before.At) < provenKept {
		return before, false
	}
	next.Since = next.At
	if before.BootID == next.BootID && before.Code == next.Code && before.Proven == next.Proven {
		next.Since = before.Began()
	}
	return next, true
}

// note writes the Slot's last refusal. note never changes the answer.
func (s *Service) note(ctx context.Context, a *attempt, r *refusal) {
	slot, bootID, instanceID := a.slot, a.bootID, a.stated.InstanceID
	s.log.Warn("admission refused", "slot", slot, "instance", instanceID, "code", r.code, "error", r.message)
	s.metrics.Refused(string(r.code))
	if slot == "" {
		return
	}
	now := s.now()
	s.mu.Lock()
	last := s.noted[slot]
	due := last.due(r, now)
	s.noted[slot] = last
	s.mu.Unlock()
	if !due {
		return
	}
	message := r.message
	if len(message) > maxRefusalText {
		message = message[:maxRefusalText]
	}
	err := func() error {
		before, index, err := store.Read[policy.Refusal](ctx, s.store, store.RefusalKey(slot))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if v, _ := s.cfg.Views.Latest(); v != nil && v.Admissions[slot].Value.AdmittedAt.After(before.At) {
			before = policy.Refusal{} // the admission ended that refusal
		}
		next, write := after(before, policy.Refusal{
			Slot: slot, BootID: bootID, InstanceID: instanceID, Code: r.code, Message: message, Proven: a.proven, At: now.UTC(), By: s.self,
		})
		if !write {
			return nil
		}
		op, err := store.Put(store.RefusalKey(slot), next, index)
		if err != nil {
			return err
		}
		return s.store.Commit(ctx, op)
	}()
	a.noteDecision(ctx, r)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		s.log.Warn("refusal not recorded", "slot", slot, "error", err)
	}
}
