package format_test

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

const stable, failed = "a1b2c3d4e5f60718293a4b5c6d7e8f90", "ffeeddccbbaa99887766554433221100"

func backed(state operation.RolloutState, reason string, over bool) operation.Rollout {
	return operation.Rollout{From: stable, To: failed, State: state, Reason: reason, Back: &operation.Back{
		Revision: stable, Since: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Over: over, Verdict: operation.Verdict{Slot: "pg-1", Reason: "not available"},
	}}
}

// TestAWayBackPointsBack: the target of the status stays the revision of the spec.
func TestAWayBackPointsBack(t *testing.T) {
	for state, over := range map[operation.RolloutState]bool{operation.RollingBack: false, operation.PausedState: false, operation.RolledBack: false, operation.Running: true} {
		r := backed(state, "", over)
		v := client.View{Status: group.Status{Group: "pg", RolloutState: string(state), Stable: stable, Target: failed}, Plan: rollout.Plan{Rollout: &r}}
		want := "ffeeddcc -> a1b2c3d4"
		if over {
			want = "a1b2c3d4 -> ffeeddcc"
		}
		if got := format.Way(v); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
		if lines := format.Changes(nil, v); !strings.Contains(lines[0], want) {
			t.Errorf("%s: %s, want %s", state, lines[0], want)
		}
	}
}

// TestTheHistoryKeepsARollback: neither a retry nor a newer spec takes the rollback out of the history.
func TestTheHistoryKeepsARollback(t *testing.T) {
	const was = "it rolled back to a1b2c3d4 from 2026-05-04T12:00:00Z on (pg-1: not available)"
	for want, r := range map[string]operation.Rollout{
		"a newer spec replaced it; " + was + ", and was retried": backed(operation.SupersededState, "a newer spec replaced it", true),
		"a newer spec replaced it; " + was:                       backed(operation.SupersededState, "a newer spec replaced it", false),
		was + ", and was retried":                                backed(operation.Running, "", true),
		"rolled back to a1b2c3d4 because pg-1":                   backed(operation.RolledBack, "rolled back to a1b2c3d4 because pg-1", false),
		"done":                                                   {State: operation.Complete, Reason: "done"},
	} {
		if got := format.Reason(r); got != want {
			t.Errorf("%s: %q, want %q", r.State, got, want)
		}
	}
}
