package e2edemo

import (
	"context"
	"slices"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rig"
)

// handoverLimit bounds a hand-over within which things die, with all that follows it.
const handoverLimit = 5 * time.Minute

// checkKilledWhilePaused kills, while callers wait for a hand-over, the processes in which they wait
// (the Envoy and the pooler of the application's CVM) and the coordinator that asked them to wait.
// Both routes that lead to the leader are paused then, once each. The hand-over completes, each way
// of writing continues, every pause ends, and the agent's log names the killed processes.
func checkKilledWhilePaused(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) {
	t.Helper()
	const tries = 3
	for range tries {
		holds, killed := restartWhilePaused(ctx, t, r, n)
		refused := slices.ContainsFunc(holds, func(h rig.Hold) bool { return h.Reason == notMoved })
		if refused && len(holds) > len(rig.PausedRoutes) {
			n.Say("the workload refused that hand-over at first, and its routes were held once for each attempt: once more")
			continue
		}
		checkHolds(t, holds, killed)
		return
	}
	t.Errorf("of %d hand-overs each was refused at first", tries)
}

// notMoved is why a route is let go whose leader was asked to hand over and refused: a replica that was
// not ready yet say. The agent asks again a moment later, and holds the route again for that.
const notMoved = "the operation is over, and named no leader"

// restartWhilePaused has the leader restarted and kills things within its hand-over; it gives the holds of
// that, once all is as before.
func restartWhilePaused(ctx context.Context, t *testing.T, r *rig.Rig, n *rig.Narrator) (holds []rig.Hold, killed time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, handoverLimit)
	defer cancel()
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, rig.Postgres, client.WaitOptions{}); err != nil {
		t.Fatalf("the group is not whole: %v", err)
	}
	old, app := leader(ctx, t, r), rig.App+"-0"
	died := []string{`"an envoy ended, it is restarted"`, `"a pooler ended, it is restarted"`}
	said := make([]int, len(died))
	for i, text := range died {
		lines, err := r.Lines(ctx, r.PlatformName(app), "cadre", text)
		if err != nil {
			t.Fatal(err)
		}
		said[i] = len(lines)
	}
	n.Say("restarting the leader %s; while callers wait, killing their Envoy and pooler and the CVM of the coordinator that told them", old)
	id, err := c.Restart(ctx, old, "something dies within its hand-over")
	if err != nil {
		t.Fatal(err)
	}
	coordinator, killed := killWhilePaused(ctx, t, r, app, id)
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
		if err := r.AwaitLines(ctx, said[i], r.PlatformName(app), "cadre", text); err != nil {
			t.Error(err)
		}
	}
	holds = awaitReleased(ctx, t, r, app, id)
	if err := r.Start(ctx, r.PlatformName(coordinator)); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(ctx, t, r, c, coordinator)
	return holds, killed
}

// killWhilePaused kills the processes in which callers in the CVM of a Slot wait, and the coordinator
// that asked them to wait for an operation, as soon as it has; killed is when all of it was dead.
// The processes of the callers go first: until the caller's own Envoy is back it cannot show the
// new leader.
func killWhilePaused(ctx context.Context, t *testing.T, r *rig.Rig, app, operation string) (coordinator string, killed time.Time) {
	t.Helper()
	coordinator, err := r.AwaitAsked(ctx, []string{"coordinator-0", "coordinator-1", "coordinator-2"}, operation)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := r.EndIn(app, "envoy", "pgbouncer")
	if err != nil || !slices.Contains(ended, "envoy") || !slices.Contains(ended, "pgbouncer") {
		t.Fatalf("killed %v: %v", ended, err)
	}
	if err := r.Kill(ctx, r.PlatformName(coordinator)); err != nil {
		t.Fatal(err)
	}
	return coordinator, time.Now()
}

// awaitReleased are the holds of an operation, once all are let go.
func awaitReleased(ctx context.Context, t *testing.T, r *rig.Rig, app, operation string) (holds []rig.Hold) {
	t.Helper()
	err := client.Poll(ctx, func(ctx context.Context) (ok bool, err error) {
		holds, err = r.Holds(ctx, app, operation)
		return err == nil && !slices.ContainsFunc(holds, func(h rig.Hold) bool { return h.To.IsZero() }), err
	}, nil)
	if err != nil {
		t.Errorf("a route is paused without end: %+v: %v", holds, err)
	}
	return holds
}

// checkHolds wants each route that leads to the leader held once, from before things died until
// after.
func checkHolds(t *testing.T, holds []rig.Hold, killed time.Time) {
	t.Helper()
	var routes []string
	for _, h := range holds {
		routes = append(routes, h.Route)
		t.Logf("%s was held from %s before to %s after everything was killed: %s", h.Route, killed.Sub(h.From), h.To.Sub(killed), h.Reason)
		if h.From.After(killed) || h.To.Before(killed) {
			t.Errorf("%s was not held any more when everything was dead, at %s: %+v", h.Route, killed, h)
		}
	}
	if slices.Sort(routes); !slices.Equal(routes, rig.PausedRoutes) {
		t.Errorf("paused were %v, want each of %v once", routes, rig.PausedRoutes)
	}
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
