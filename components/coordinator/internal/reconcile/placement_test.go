package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// Nodes returns the hosts of the test.
func (l link) Nodes(context.Context) ([]platform.Node, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return slices.Clone(l.w.hosts), nil
}

// placed checks that the node of a create stands in the recorded operation.
func (w *world) placed(ctx context.Context, req platform.CreateRequest) {
	keys, _, err := w.store.List(ctx, store.OperationsPrefix)
	if err != nil {
		w.t.Error(err)
	}
	recorded := slices.ContainsFunc(keys, func(e store.Entry) bool {
		op, _, err := store.Read[operation.Operation](ctx, w.store, e.Key)
		return err == nil && "demo-"+op.Slot == req.Name && op.Phase == operation.Acting && op.Call.Part == operation.PartCreate && op.Call.Node == req.Node
	})
	if !recorded {
		w.t.Errorf("%s is made on %q, and no open operation says so", req.Name, req.Node)
	}
}

// on is the recorded node of each Slot, in order.
func (w *world) on() string {
	var nodes []string
	for _, s := range w.view().SlotsOf("pg") {
		nodes = append(nodes, s.Node)
	}
	return strings.Join(nodes, " ")
}

// TestNewCVMsAreMadeOnTheRecordedNodes, and a rule that cannot hold waits until a host comes.
func TestNewCVMsAreMadeOnTheRecordedNodes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.hosts = []platform.Node{{ID: "a", Name: "host-a", Region: "east"}, {ID: "b", Region: "west"}}
		w.mu.Unlock()
		s := spec("one")
		s.Placement = group.Placement{Spread: group.SpreadNode, MaxPer: 1, Require: true}
		w.apply(s)
		w.until("two of three", 5*time.Minute, func() bool { return w.status().Available == 2 })
		held := func() bool {
			st := w.status()
			return len(st.Instances) == 3 && slices.ContainsFunc(st.Instances[2].Holds, func(h group.Hold) bool {
				return h.Predicate == rollout.HoldPlacement && strings.Contains(h.Message, "host-a has 1 of the group") && strings.Contains(h.Message, "add a node")
			})
		}
		w.until("the hold of the third", time.Minute, held)
		w.mu.Lock()
		w.hosts = append(w.hosts, platform.Node{ID: "c"})
		w.mu.Unlock()
		w.until("the third", 5*time.Minute, w.complete("one"))
		if got := w.on(); got != "a b c" {
			t.Errorf("the slots are on %s", got)
		}
		if i := w.status().Instances[0]; i.Node != "" || i.NodeName != "" || i.Region != "" {
			t.Errorf("the state that is recorded names a node: %+v", i)
		}
		// Without the placement, the records name no nodes any more: an older coordinator reads them.
		w.apply(spec("one"))
		w.until("records without nodes", time.Minute, func() bool { return strings.TrimSpace(w.on()) == "" })
		if got := w.made("create"); len(got) != 3 {
			t.Errorf("creates: %v", got)
		}
	})
}
