package control

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// beginAnswer is a coordinator's answer to the begin of a hand-over.
type beginAnswer struct {
	controlv1.CoordinatorServiceClient

	out    *controlv1.BeginHandoverResponse
	err    error
	silent bool
}

func (a *beginAnswer) BeginHandover(ctx context.Context, _ *controlv1.BeginHandoverRequest, _ ...grpc.CallOption) (*controlv1.BeginHandoverResponse, error) {
	if a.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.out, a.err
}

// TestCallersOfAllCoordinators: each coordinator notifies the agents with a session to it, and the
// success of any one counts.
func TestCallersOfAllCoordinators(t *testing.T) {
	says := func(paused []string, not map[string]string, notConnected ...string) *beginAnswer {
		return &beginAnswer{out: &controlv1.BeginHandoverResponse{Paused: paused, NotPaused: not, NotConnected: notConnected}}
	}
	for name, c := range map[string]struct {
		all    []*beginAnswer
		paused []string
		not    map[string]string
		took   time.Duration
		failed bool
	}{
		"each hears some":           {[]*beginAnswer{says([]string{"app-0"}, nil, "app-1"), says([]string{"app-1"}, nil, "app-0")}, []string{"app-0", "app-1"}, nil, 0, false},
		"one of them did it":        {[]*beginAnswer{says(nil, map[string]string{"app-0": "its agent does not answer"}, "app-1"), says([]string{"app-0", "app-1"}, nil)}, []string{"app-0", "app-1"}, nil, 0, false},
		"one caller has no session": {[]*beginAnswer{says([]string{"app-0"}, nil, "app-1"), says(nil, nil, "app-0", "app-1")}, []string{"app-0"}, map[string]string{"app-1": notConnectedText}, 0, false},
		"a silent one is needed":    {[]*beginAnswer{says([]string{"app-0"}, nil, "app-1"), {silent: true}}, []string{"app-0"}, map[string]string{"app-1": notConnectedText}, beginLimit, false},
		"a silent one is not":       {[]*beginAnswer{says([]string{"app-0"}, map[string]string{"app-1": "busy"}), {silent: true}}, []string{"app-0"}, map[string]string{"app-1": "busy"}, 0, false},
		"one knows nothing of it":   {[]*beginAnswer{{err: errors.New("behind")}, says([]string{"app-0"}, nil)}, []string{"app-0"}, nil, 0, false},
		"none does it":              {[]*beginAnswer{{err: errors.New("behind")}, {silent: true}}, nil, nil, beginLimit, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &Hub{live: map[*session]struct{}{}}
				for _, one := range c.all {
					h.live[&session{client: one, peer: overlay.ID{Slot: "coordinator"}}] = struct{}{}
				}
				began := time.Now()
				got, err := h.BeginHandover(t.Context(), "op", 1)
				if (err != nil) != c.failed || !slices.Equal(got.Paused, c.paused) || !maps.Equal(got.NotPaused, c.not) {
					t.Errorf("%+v, %v", got, err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				time.Sleep(beginLimit) // calls that were not waited for end
			})
		})
	}
}
