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
	"cadre.dev/core/rollout"
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

// The slots of an OPPORTUNISTIC group stay at their revision until an operator updates them.
func TestAWaitReportsTheUpdatesThatAreDue(t *testing.T) {
	b := newBench(t)
	b.OnApply = func(g *clienttest.Group) {
		lead(operation.Running, "")(g)
		g.Status.Available = 3
		held := []rollout.Hold{{Predicate: rollout.HoldOpportunistic}}
		g.Plan.Rollout = &operation.Rollout{State: operation.Running}
		g.Plan.Actions = []rollout.Action{{Slot: "worker-0", Kind: operation.Update, Holds: held}, {Slot: "worker-2", Ordinal: 2, Kind: operation.Update, Holds: held}}
	}
	code, out := b.run("group", "apply", b.file("a", "30"), "--wait")
	if code != ExitOK || !strings.Contains(out, "group worker: every slot is available; an operator's update is due for 2 of 3 slots: `cadre instance update SLOT`\n") || strings.Contains(out, "runs revision") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out := b.run("group", "apply", b.file("b", "30"), "--wait", "-o", "json"); code != ExitOK || !strings.Contains(out, `"waited": "updates_due"`) {
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

// interrupting ends a run at the first text that contains at.
type interrupting struct {
	text      bytes.Buffer // not embedded: its WriteString would bypass Write
	at        string
	interrupt func()
}

func (w *interrupting) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte(w.at)) {
		w.interrupt()
	}
	return w.text.Write(text)
}

func TestAnInterruptedWaitSaysThatTheDeletionContinues(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Complete, "web-1 is being removed")
	b.must(ExitOK, "deployment", "apply", b.shop())
	_, release := b.HoldDeletes()
	defer release()
	ctx, interrupt := context.WithCancel(t.Context())
	out := &interrupting{at: "web-1 is being removed", interrupt: interrupt}
	app := &App{Out: out, Err: out, Now: func() time.Time { return noon }, Dial: client.Options{CallTimeout: 5 * time.Second}}
	code := app.Run(ctx, []string{"deployment", "delete", "shop", "--delete-disks", "--reason", "done", "--confirm", "shop", "--wait"})
	if code != ExitError || !strings.Contains(out.text.String(), "the wait was interrupted; the deletion continues, see `cadre group describe ") || strings.Contains(out.text.String(), "context canceled") {
		t.Errorf("exit %d\n%s", code, out.text.String())
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
