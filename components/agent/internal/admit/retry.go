package admit

import (
	"context"
	"math/rand/v2"
	"regexp"
	"time"

	"google.golang.org/grpc/status"
)

const (
	firstPause = 200 * time.Millisecond
	maxPause   = 3 * time.Second
)

// AdmitUntil repeats Admit with a jittered pause that grows from 0.2 s to 3 s,
// until it succeeds or ctx ends. A refusal is logged when its code changes: a
// Slot that waits for its turn says so once.
func (c *Client) AdmitUntil(ctx context.Context) (Admitted, error) {
	pause, last := firstPause, ""
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
		if code := Code(err); code != last {
			last = code
			c.cfg.Log.Warn("admission is waiting", "code", code, "attempt", attempt, "error", err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter is no secret
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Admitted{}, context.Cause(ctx)
		}
		pause = min(pause*2, maxPause)
	}
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
