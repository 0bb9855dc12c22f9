package agents

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
	"cadre.dev/overlay/grpcconn"
)

// ErrEnded: a coordinator refused the Boot permanently, because its name is spent. An agent then
// ends; no other refusal is permanent.
var ErrEnded = errors.New("refused permanently")

// AdmitUntil repeats Admit, each time with a coordinator that pick names, until it succeeds, ctx
// ends or the Boot is refused permanently. AdmitUntil calls refused with each refusal's code.
func (a *Agent) AdmitUntil(ctx context.Context, pick func() string, judge Judge, refused func(code string)) (tries int, err error) {
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
		refused(code)
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

// pauseAfter is full jitter over a range that doubles, in addition to the coordinator's requested
// pause.
func pauseAfter(err error, code string, attempt int) time.Duration {
	span := policy.RetrySpan(policy.Code(code), attempt)
	return grpcconn.RetryAfter(err, policy.RetryWait) + rand.N(span) + time.Millisecond //nolint:gosec // jitter is no secret
}

// codeOf is the threat model's code that err carries, else gRPC's, else "unreachable".
func codeOf(err error) string {
	if found := policy.CodeIn(err.Error()); found != "" {
		return found
	}
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	return "unreachable"
}
