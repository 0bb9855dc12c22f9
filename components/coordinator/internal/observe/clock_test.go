package observe_test

import (
	"context"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/platform"
)

// countingCloud counts its calls.
type countingCloud struct{ asked int }

func (c *countingCloud) List(context.Context, string) ([]platform.Instance, error) {
	c.asked++
	return nil, nil
}

// The clock was set back since the list was made, so the age of the list is unknown.
func TestAListFromTheFutureIsRequestedAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cloud := &countingCloud{}
	p := observe.NewPlatform(cloud, func() time.Time { return now }, time.Minute)
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{0, 1}, {time.Second, 1}, {-time.Hour, 2}, {time.Second, 2}} {
		now = now.Add(step.by)
		if p.List(t.Context(), "pg", time.Minute); cloud.asked != step.want {
			t.Errorf("asked %d times after the clock was set by %s, want %d", cloud.asked, step.by, step.want)
		}
	}
}
