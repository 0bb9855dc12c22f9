package e2edemo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/demo/internal/rig"
)

// unreached are Python's errors for a connection that failed.
var unreached = []string{"ConnectionRefusedError", "TimeoutError", "No route to host", "Network is unreachable"}

// checkPaths shows that all traffic between CVMs goes over the overlay: with every packet between
// CVMs dropped the database continues over the gateway; and no CVM reaches another's own address.
func checkPaths(ctx context.Context, t *testing.T, r *rig.Rig) {
	t.Helper()
	cvms, err := r.CVMs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"5432", "7443", "8008", "8301"} {
		dial := fmt.Sprintf("import socket; socket.create_connection((%q, %s), 2)", cvms["demo-postgres-1"].Address, port)
		out, err := r.Exec(ctx, "demo-postgres-0", "postgres", "python3", "-c", dial)
		if err == nil || !slices.ContainsFunc(unreached, func(why string) bool { return strings.Contains(out+err.Error(), why) }) {
			t.Errorf("postgres-0 reaches port %s of postgres-1 past the overlay, or did not try: %v: %s", port, err, out)
		}
	}
	flows, err := r.CutCVMs(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	if flows.Protocols["tcp"].Passed.Bytes == 0 {
		t.Errorf("nothing went directly over TCP: %+v", flows)
	}
	cut := time.Now()
	if err := r.AwaitWrites(ctx, cut.Add(time.Second), 500); err != nil {
		t.Fatalf("with all packets between CVMs dropped: %v", err)
	}
	awaitPath(ctx, t, r, rig.Postgres, "gateway")
	summary, err := r.LoadSummary(ctx, cut.Add(-time.Second), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all direct paths died: longest write gap %v", summary.Gap)
	if flows, err = r.CutCVMs(ctx, false); err != nil {
		t.Fatal(err)
	}
	if flows.Protocols["tcp"].Dropped.Packets == 0 {
		t.Errorf("nothing was dropped: %+v", flows)
	}
	awaitPath(ctx, t, r, rig.Postgres, "direct-")
}

// awaitPath waits until the first member of a group uses a kind of path to both other members.
func awaitPath(ctx context.Context, t *testing.T, r *rig.Rig, name, kind string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	first, others := group.SlotName(name, 0), []string{group.SlotName(name, 1), group.SlotName(name, 2)}
	last := ""
	for {
		out, err := r.Cadre(ctx, "overlay", "status", first)
		if err == nil {
			last = out
		}
		good := 0
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && slices.Contains(others, f[0]) && strings.HasPrefix(f[1], kind) {
				good++
			}
		}
		if err == nil && good == len(others) {
			return out
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not use %s: %v\n%s", first, kind, err, last)
		}
	}
}
