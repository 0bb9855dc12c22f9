package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/operation"
)

// A rollout that left a failed slot behind does not end with the words of a whole one.
func TestAWaitNamesTheSlotsThatTheRolloutLeft(t *testing.T) {
	const left = "every slot but worker-2 is at the target: max_failed tolerates that its step failed"
	b := newBench(t)
	b.OnApply = func(g *clienttest.Group) {
		lead(operation.PartitionReached, "")(g)
		g.Plan.Rollout = &operation.Rollout{State: operation.PartitionReached, Reason: left}
	}
	code, out := b.run("group", "apply", b.file("a", "30"), "--wait")
	if code != ExitOK || !strings.Contains(out, "group worker: the rollout ended as PARTITION_REACHED: "+left+"\n") || strings.Contains(out, "is available\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// An interrupt ends the wait alone.
func TestAnInterruptedWaitSaysThatTheRolloutContinues(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Running, "")
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	app := &App{Out: &out, Err: &out, Now: func() time.Time { return noon }, Dial: client.Options{CallTimeout: 5 * time.Second}}
	done := make(chan int)
	file := b.file("a", "30")
	go func() { done <- app.Run(ctx, []string{"group", "apply", file, "--wait"}) }()
	b.AwaitWatcher(t)
	interrupt()
	if code := <-done; code != ExitError || !strings.Contains(out.String(), "the wait was interrupted; the rollout continues, see `cadre rollout status worker`") {
		t.Errorf("exit %d\n%s", code, out.String())
	}
}

// No command resumes a rollout that a newer one replaced.
func TestTheWayOnAfterARolloutThatStopped(t *testing.T) {
	for state, want := range map[operation.RolloutState]string{
		operation.PausedState: "or `cadre rollout resume web`", operation.FailedState: "or `cadre rollout retry web --reason WHY`", operation.SupersededState: "see `cadre rollout status web`",
	} {
		if got := explain(&client.RolloutError{Group: "web", State: state, Reason: "r"}, "web").Error(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", state, got)
		}
	}
}
