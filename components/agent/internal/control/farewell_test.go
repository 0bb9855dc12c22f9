package control

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// coordinatorThat answers a farewell with say.
type coordinatorThat struct {
	controlv1.CoordinatorServiceClient
	say func(context.Context) error
}

func (c coordinatorThat) Farewell(ctx context.Context, _ *controlv1.FarewellRequest, _ ...grpc.CallOption) (*controlv1.FarewellResponse, error) {
	return &controlv1.FarewellResponse{}, c.say(ctx)
}

func TestAFarewellReachesEveryCoordinatorWithinASecond(t *testing.T) {
	good := func(context.Context) error { return nil }
	fails := func(context.Context) error { return errors.New("it fails") }
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		coordinators []func(context.Context) error
		taken        bool
		within       time.Duration
	}{
		"no coordinator is connected": {nil, false, 0},
		"all take it":                 {[]func(context.Context) error{good, good, good}, true, 0},
		"one takes it":                {[]func(context.Context) error{fails, good, fails}, true, 0},
		"one takes it, one hangs":     {[]func(context.Context) error{good, silent}, true, farewellLimit},
		"no coordinator succeeds":     {[]func(context.Context) error{fails, silent}, false, farewellLimit},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHub(t, t.TempDir())
			for _, say := range c.coordinators {
				h.live[&session{hub: h, peer: from, client: coordinatorThat{say: say}}] = struct{}{}
			}
			began := time.Now()
			err := h.Farewell(t.Context())
			if (err == nil) != c.taken || time.Since(began) != c.within {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			h.noteEnded(from, status.Error(codes.FailedPrecondition, "INCARNATION_STALE: this boot said farewell"))
			if ended, _ := h.Ended().Get(); (ended != nil) != (len(c.coordinators) == 0) {
				t.Errorf("%s: notified that it ended: %v", name, ended)
			}
		})
	}
}
