package server

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestR103_AnUndoIsTheEarlierRevisionInTheSpecOfNow: the proposal is applied like any spec, and
// rejected if the spec changed meanwhile.
func TestR103_AnUndoIsTheEarlierRevisionInTheSpecOfNow(t *testing.T) {
	a, first, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "pg"}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "no revision before") {
		t.Errorf("without a history: %v", err)
	}
	put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Target: second, Stable: first})
	put(a, t, store.RolloutKey("pg-1"), operation.Rollout{ID: "pg-1", Group: "pg", Generation: 1, To: first, State: operation.Complete})
	if _, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "pg"}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "comes out as") {
		t.Errorf("a record without its agent spec: %v", err)
	}
	one := spec(t)
	record, index, err := store.Read[group.RevisionRecord](t.Context(), a.cfg.Store, store.RevisionKey(first))
	if err != nil {
		t.Fatal(err)
	}
	record.AgentSpec = one.AgentSpec()
	op, err := store.Put(store.RevisionKey(first), record, index)
	if err == nil {
		err = a.cfg.Store.Commit(t.Context(), op)
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		v, changed := a.cfg.Views.Latest()
		if v.Revisions[first].Value.AgentSpec.Workload.Kind != "" {
			break
		}
		select {
		case <-changed:
		case <-time.After(time.Until(end)):
			t.Fatal("the record is not seen")
		}
	}
	for _, typed := range []string{"", first[:8], "#1"} {
		out, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "pg", Revision: typed})
		if err != nil || out.GetFromRevision() != second || out.GetToRevision() != first || revisionOf(t, out.GetSpecJson()) != first {
			t.Fatalf("%q: %v, %v", typed, out, err)
		}
		back, err := group.Decode(out.GetSpecJson())
		if err != nil || !back.UpdatePolicy.RequireApproval {
			t.Errorf("the rest of the spec did not stay: %+v, %v", back.UpdatePolicy, err)
		}
		if len(out.GetWarnings()) != 0 && !strings.Contains(out.GetWarnings()[0], "NOT_APPROVED") {
			t.Errorf("warnings %q", out.GetWarnings())
		}
	}
	for typed, want := range map[string]codes.Code{second: codes.FailedPrecondition, "abcdabcd": codes.NotFound, "x": codes.InvalidArgument} {
		if _, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "pg", Revision: typed}); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", typed, err, want)
		}
	}
	if _, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "gp"}); status.Code(err) != codes.NotFound {
		t.Errorf("no such group: %v", err)
	}
}

// After an undo of a target that never arrived, the next undo is ambiguous, and the error names
// both ways.
func TestR103_AnUndoThatMayMeanTwoThingsNamesThem(t *testing.T) {
	a, first, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	other := strings.Repeat("ab", 16)
	put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Target: second, Stable: second})
	for i, r := range []operation.Rollout{
		{ID: "pg-1", To: first, State: operation.Complete}, {ID: "pg-2", To: second, State: operation.Complete},
		{ID: "pg-3", To: other, State: operation.FailedState}, {ID: "pg-4", To: second, State: operation.Complete},
	} {
		r.Group, r.Generation = "pg", uint64(i+1)
		put(a, t, store.RolloutKey(r.ID), r)
	}
	awaitView(t, a, func(v *view.View) bool { return len(v.Rollouts) == 4 && v.Statuses["pg"].Value.Stable == second })
	_, err := a.ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: "pg"})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "--to "+other) || !strings.Contains(message(err), "--to "+first) {
		t.Errorf("an undo of an undo: %v", err)
	}
}

// A canary ran before the target: an undo asks before it rolls the canary's Revision out to all. If
// most of the affected slots ran it, it is the previous Revision.
func TestR103_AnUndoToACanarysRevisionNamesBothWays(t *testing.T) {
	canary := strings.Repeat("ab", 16)
	for name, ran := range map[string][3]string{"a canary": {"", canary, ""}, "all but one": {canary, "", canary}} {
		t.Run(name, func(t *testing.T) {
			a, first, second := newAsked(t)
			for i, r := range []operation.Rollout{
				{ID: "pg-1", To: first, State: operation.Complete}, {ID: "pg-2", To: canary, State: operation.PartitionReached}, {ID: "pg-3", To: second, State: operation.Running},
			} {
				r.Group, r.Generation = "pg", uint64(i+1)
				put(a, t, store.RolloutKey(r.ID), r)
			}
			put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Target: second, Stable: first})
			for i, from := range ran {
				slot := group.SlotName("pg", i)
				put(a, t, store.SlotStatusKey("pg", slot), group.InstanceStatus{Group: "pg", Slot: slot, Ordinal: i, Observed: second})
				op := operation.Operation{ID: "pg-3-" + slot, Group: "pg", Slot: slot, Kind: operation.Update, From: cmp.Or(from, first), To: second, Phase: operation.Done}
				put(a, t, store.OperationKey(op.ID), op)
			}
			awaitView(t, a, func(v *view.View) bool {
				return len(v.Rollouts) == 3 && len(v.Operations) == 3 && len(v.Statuses["pg"].Value.Instances) == 3
			})
			want := []string{"--to " + canary + " goes there", "--to " + first + " further back"}
			if ran[0] != "" {
				want = []string{"the content of revision " + canary} // it would be the way back if its content were recorded
			}
			_, err := a.ProposeUndo(as(t.Context(), operatorToken), &apiv1.ProposeUndoRequest{Group: "pg"})
			for _, text := range want {
				if status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), text) {
					t.Errorf("%v, want %q in it", err, text)
				}
			}
		})
	}
}
