package operation

import (
	"testing"
	"time"
)

// TestR62_ACallOfTheLastLeaderIsWaitedOut: a step that called before the Lease was taken waits for the longest
// duration of a call. No other step waits.
func TestR62_ACallOfTheLastLeaderIsWaitedOut(t *testing.T) {
	const longest = 10 * time.Second
	for name, c := range map[string]struct {
		issued, now time.Time
		held        bool
	}{
		"nothing was called":           {time.Time{}, start, false},
		"called before":                {start.Add(-time.Second), start.Add(time.Second), true},
		"called as it was taken":       {start, start.Add(longest - 1), true},
		"called before, and long over": {start.Add(-time.Second), start.Add(longest), false},
		"called by this leader":        {start.Add(1), start.Add(2), false},
	} {
		f := Facts{Safe: true}
		f.TakenOver(Operation{Call: Call{IssuedAt: c.issued}}, start, c.now, longest)
		if f.Safe == c.held || (f.SafeReason != "") != c.held {
			t.Errorf("%s: safe %t (%s), want held back %t", name, f.Safe, f.SafeReason, c.held)
		}
	}
}

// TestOpenAndOwnOperationsCountForARollout: these are open Operations, the rollout's own Operations, and Operations
// that matter to their Slot under any rollout.
func TestOpenAndOwnOperationsCountForARollout(t *testing.T) {
	for name, c := range map[string]struct {
		op   Operation
		want bool
	}{
		"an open one of another":      {Operation{Phase: Joining, Rollout: "before"}, true},
		"an ended one of it":          {Operation{Phase: Done, Rollout: "now"}, true},
		"an ended one of another":     {Operation{Phase: Done, Rollout: "before"}, false},
		"one of no rollout":           {Operation{Phase: Done, Kind: Restart}, false},
		"what began with a moved CVM": {Operation{Phase: Done, Rollout: "before", Before: Before{PendingBoot: PendingBoot{To: "x"}}}, true},
		"what healed the slot":        {Operation{Phase: Failed, Actor: ActorHealing}, true},
		"a drain that somebody had":   {Operation{Phase: Done, Kind: Drain}, true},
	} {
		if got := c.op.Counts("now"); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if c.op.Rollout == "" && c.op.Counts("") != c.want {
			t.Errorf("%s counts as one of the rollout that there is not", name)
		}
	}
}
