package simulated_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/agent/simulated"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// coordinator orders one drain, and notes the last word about it.
type coordinator struct {
	controlv1.CoordinatorServiceClient
	term uint64

	mu   sync.Mutex
	said controlv1.StepState // guarded by mu
}

func (c *coordinator) GetDesired(context.Context, *controlv1.GetDesiredRequest, ...grpc.CallOption) (*controlv1.GetDesiredResponse, error) {
	config, err := json.Marshal(group.AgentConfig{
		Group: "db", Slot: "db-0", Members: []string{"db-0"},
		LifecycleHooks: []group.LifecycleHook{{Name: "drain", Transition: group.PreTerminate, Exec: &group.ExecAction{Service: "db", Command: "drain"}}},
	})
	return &controlv1.GetDesiredResponse{Desired: &controlv1.Desired{
		Version: 1, Term: c.term, ConfigJson: config,
		Operation: &controlv1.OperationOrder{OperationId: "op", Verb: controlv1.Verb_VERB_DRAIN, Attempt: 1},
	}}, err
}

func (*coordinator) GetPeers(context.Context, *controlv1.GetPeersRequest, ...grpc.CallOption) (*controlv1.GetPeersResponse, error) {
	return &controlv1.GetPeersResponse{}, nil
}

func (c *coordinator) Report(_ context.Context, r *controlv1.ReportRequest, _ ...grpc.CallOption) (*controlv1.ReportResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range r.GetReport().GetSteps() {
		c.said = s.GetState()
	}
	return &controlv1.ReportResponse{}, nil
}

func (c *coordinator) heard() controlv1.StepState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// quiet is a workload of which nothing has to be handed over.
type quiet struct{}

func (quiet) Observe(context.Context) (simulated.View, error) {
	return simulated.View{Role: simulated.RoleNone, Liveness: simulated.LivenessAlive, Ready: true}, nil
}

func (quiet) Transfer(context.Context, simulated.TransferRequest) (simulated.Transferred, error) {
	return simulated.Transferred{}, nil
}
func (quiet) Drain(context.Context) error       { return nil }
func (quiet) CancelDrain(context.Context) error { return nil }

// commands take a minute and count.
type commands struct{ ran int }

func (*commands) Restart(context.Context, string) error { return nil }

func (c *commands) RunUntil(ctx context.Context, _ group.ExecAction, _ []string, _ time.Duration) error {
	c.ran++
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestAProcessGoesOnFromItsDisk: a process restarts the unfinished order of the previous one. It
// answers a finished order without running it again. Each process rejects a Term older than any
// Term seen before.
func TestAProcessGoesOnFromItsDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(simulated.Disk)
		hooks := &commands{}
		runs := func(c *coordinator, run uint32, d time.Duration) controlv1.StepState {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			a, err := simulated.New(simulated.Config{
				Cluster: "c", Group: "db", Slot: "db-0", BootAt: time.Now(), Run: run, Disk: disk, Driver: quiet{}, Commands: hooks,
				Configured: func(*group.AgentConfig) {}, Gone: func() bool { return ctx.Err() != nil }, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			all.Go(func() { a.Run(ctx) })
			all.Go(func() { a.Talk(ctx, "coordinator-0", c) })
			all.Wait()
			return c.heard()
		}
		for _, step := range []struct {
			name string
			term uint64
			d    time.Duration
			said controlv1.StepState
			ran  int
		}{
			{"it dies in the middle", 2, 30 * time.Second, controlv1.StepState_STEP_STATE_RUNNING, 1},
			{"it starts again and ends", 2, 2 * time.Minute, controlv1.StepState_STEP_STATE_DONE, 2},
			{"it answers", 2, 30 * time.Second, controlv1.StepState_STEP_STATE_DONE, 2},
		} {
			if said := runs(&coordinator{term: step.term}, 0, step.d); said != step.said || hooks.ran != step.ran {
				t.Errorf("%s: it said %s after %d hooks, want %s after %d", step.name, said, hooks.ran, step.said, step.ran)
			}
		}
		disk = new(simulated.Disk)
		runs(&coordinator{term: 9}, 0, time.Second)
		if runs(&coordinator{term: 8}, 1, 2*time.Minute); hooks.ran != 3 {
			t.Errorf("%d hooks ran: an older Term was obeyed", hooks.ran)
		}
	})
}
