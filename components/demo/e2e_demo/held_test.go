package e2edemo

import (
	"context"
	"slices"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rig"
)

// heldLimit bounds a hand-over within which things die, with all that follows it.
const heldLimit = 5 * time.Minute

// checkKilledWhileHeld kills, while callers wait for a hand-over, what they wait in (the Envoy
// and the pooler of the application's CVM) and the coordinator that told them to. The
// hand-over comes to its end, each way of writing goes on, every hold is let go, and the
// agent's log says what died.
func checkKilledWhileHeld(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, heldLimit)
	defer cancel()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, rig.Postgres, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole: %v", err)
	}
	info, err := c.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old, app, coordinator := leader(ctx, t, r), r.PlatformName(rig.App+"-0"), r.PlatformName(info.GetLeader())
	count := func(text string) int {
		lines, err := r.Lines(ctx, app, "cadre", text)
		if err != nil {
			t.Fatal(err)
		}
		return len(lines)
	}
	const held, released = `"a route is held"`, `"a route is released"`
	died := []string{`"an envoy is not there, it is started again"`, `"a pooler ended, it is started again"`}
	before, said := count(held), []int{count(died[0]), count(died[1])}
	n.Say("restarting the leader %s; while callers wait, killing their Envoy and pooler and the CVM of %s", old, info.GetLeader())
	id, err := c.Restart(ctx, old, "something dies within its hand-over")
	if err != nil {
		t.Fatal(err)
	}
	// One more than the first: both routes that lead to the leader.
	if err := r.AwaitLines(ctx, before+1, app, "cadre", held); err != nil {
		t.Fatal(err)
	}
	ended, err := r.EndIn(rig.App+"-0", "envoy", "pgbouncer")
	if err != nil || !slices.Contains(ended, "envoy") || !slices.Contains(ended, "pgbouncer") {
		t.Fatalf("killed %v: %v", ended, err)
	}
	if err := r.Kill(ctx, coordinator); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitRequest(ctx, id, func(client.Operation) {}, nil); err != nil {
		t.Errorf("the restart of %s: %v", old, err)
	}
	if now := leader(ctx, t, r); now == old {
		t.Errorf("%s leads as before", now)
	}
	if err := r.AwaitWrites(ctx, time.Now(), 50); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	for i, text := range died {
		if err := r.AwaitLines(ctx, said[i], app, "cadre", text); err != nil {
			t.Error(err)
		}
	}
	if err := r.AwaitLines(ctx, count(held)-1, app, "cadre", released); err != nil {
		t.Errorf("a route is held without end: %v", err)
	}
	if err := r.Start(ctx, coordinator); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(ctx, t, r, c, info.GetLeader())
}

// awaitAnswer waits until a coordinator answers, asked itself.
func awaitAnswer(ctx context.Context, t *testing.T, r *rig.Rig, c *client.Client, coordinator string) {
	t.Helper()
	cvms, err := r.CVMs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The gateway knows an instance by its id as it knows an app.
	where := c.Context()
	where.CoordinatorAppID = cvms[r.PlatformName(coordinator)].InstanceID
	one, err := client.Dial(where, client.Options{CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close() //nolint:errcheck // at the end
	err = client.Poll(ctx, func(ctx context.Context) (bool, error) {
		info, err := one.Cluster(ctx)
		return err == nil && info.GetSelf() == coordinator, err
	}, nil)
	if err != nil {
		t.Errorf("%s does not come back: %v", coordinator, err)
	}
}
