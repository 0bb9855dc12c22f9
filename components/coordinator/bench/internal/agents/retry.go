package agents

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
)

// Pauses between two tries are those of cadre.dev/agent/internal/admit.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	turnPause  = 3 * time.Second
	maxWait    = 30 * time.Second
)

// ErrEnded: a coordinator said that the Boot's name is spent. An agent ends then; it
// is the one refusal for good.
var ErrEnded = errors.New("refused for good")

// AdmitUntil repeats Admit, each time with a coordinator that pick names, until it
// succeeds, ctx ends or the Boot is refused for good. told is told of each refusal's code.
func (a *Agent) AdmitUntil(ctx context.Context, pick func() string, judge Judge, told func(code string)) (tries int, err error) {
	for tries = 1; ; tries++ {
		err := a.Admit(ctx, pick(), judge)
		switch {
		case err == nil:
			return tries, nil
		case ctx.Err() != nil:
			return tries, errors.Join(context.Cause(ctx), err)
		case errors.Is(err, errEvidence):
			return tries, err
		}
		code := codeOf(err)
		told(code)
		if code == string(policy.CodeIncarnationStale) {
			return tries, errors.Join(ErrEnded, err)
		}
		timer := time.NewTimer(pauseAfter(err, code, tries))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return tries, errors.Join(context.Cause(ctx), err)
		}
	}
}

// pauseAfter is full jitter over a range that doubles, on top of what the coordinator
// asked for.
func pauseAfter(err error, code string, attempt int) time.Duration {
	most := maxPause
	switch policy.Code(code) { //nolint:exhaustive // the rest is not about whose turn it is
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

// codeOf is the threat model's code that err carries, else gRPC's, else "unreachable".
func codeOf(err error) string {
	if found := codePattern.FindString(err.Error()); found != "" {
		return found
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "unreachable"
}
