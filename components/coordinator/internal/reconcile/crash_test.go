package reconcile_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// crashes is a platform driver that panics. It panics when it measures a content with a certain
// word, and directly after an update took effect.
type crashes struct {
	platform.Platform
	word     *atomic.Value
	updating *atomic.Bool
}

func (c crashes) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	if word := c.word.Load().(string); word != "" && strings.Contains(string(t.AppCompose), word) {
		panic("index out of range")
	}
	return c.Platform.Provision(ctx, vmUUID, t)
}

func (c crashes) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	out, err := c.Platform.Update(ctx, req)
	if c.updating.Load() {
		panic("nil map")
	}
	return out, err
}

// panics counts the panics of each part.
type panics struct {
	mu    sync.Mutex
	parts map[string]int // guarded by mu
}

func (p *panics) contained() *contain.Panics {
	return contain.New(slog.New(slog.DiscardHandler), func(part string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.parts == nil {
			p.parts = map[string]int{}
		}
		p.parts[part]++
	})
}

func (p *panics) of(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parts[part]
}

// contained gives a test a coordinator that contains its panics.
func contained(t *testing.T, test func(t *testing.T, w *world, n *panics, c crashes)) {
	t.Helper()
	begin(t, func(t *testing.T, w *world) {
		n, c := &panics{}, crashes{word: &atomic.Value{}, updating: &atomic.Bool{}}
		c.word.Store("")
		w.coordinator("coordinator-0", func(_ *life, cfg *simulated.Config) {
			c.Platform = cfg.Platform
			cfg.Platform, cfg.Panics = c, n.contained()
		})
		test(t, w, n, c)
	})
}

// web is another group, which is healthy.
func web(replicas int) group.Spec {
	s := spec("one")
	s.Name, s.Replicas, s.Workload.Kind = "web", replicas, group.WorkloadNone
	return s
}

func (w *world) webHas(replicas int) func() bool {
	return func() bool {
		st, err := view.ReadStatus(w.t.Context(), w.store, "web")
		return err == nil && st.Available == replicas
	}
}

func TestAPanicHoldsItsOwnGroupWithACondition(t *testing.T) {
	contained(t, func(t *testing.T, w *world, n *panics, c crashes) {
		w.apply(spec("one"))
		w.putJSON(store.GroupSpecKey("web"), web(3))
		w.until("creation of pg", 5*time.Minute, w.complete("one"))
		w.until("creation of web", 5*time.Minute, w.webHas(3))
		term := w.term()

		c.word.Store("poison")
		w.apply(spec("poison"))
		held := w.condition(reconcile.ConditionReconciled, "INTERNAL_ERROR")
		w.until("the condition", time.Minute, held)
		w.putJSON(store.GroupSpecKey("web"), web(5))
		w.until("the other group", 5*time.Minute, w.webHas(5))
		if !held() || w.term() != term || len(w.made("update demo-pg")) != 0 {
			t.Errorf("held %t, term %d after %d, calls %q", held(), w.term(), term, w.made("update"))
		}
		if n.of("pass") < 2 {
			t.Errorf("%d panics are counted", n.of("pass"))
		}
		if got := w.status().Message; !strings.Contains(got, "INTERNAL_ERROR") || strings.Contains(got, "index out of range") {
			t.Errorf("the message is %q", got)
		}
		// As after an upgrade of the coordinators: the group continues, and the condition goes.
		c.word.Store("")
		w.until("the update", 10*time.Minute, w.complete("poison"))
		if held() {
			t.Error("the condition stayed")
		}
	})
}

// The effect was recorded first, so the next pass finds it and does not repeat it.
func TestAPanicRightAfterAnEffectRepeatsNoEffect(t *testing.T) {
	contained(t, func(t *testing.T, w *world, n *panics, c crashes) {
		w.apply(spec("one"))
		w.until("creation", 5*time.Minute, w.complete("one"))
		c.updating.Store(true)
		w.apply(spec("two"))
		w.until("the update", 20*time.Minute, w.complete("two"))
		if got := w.made("update"); len(got) != 3 {
			t.Errorf("updates %q", got)
		}
		for id, o := range w.view().Operations {
			if o.Value.Kind == operation.Update && o.Value.Phase != operation.Done {
				t.Errorf("operation %s is %s: %s", id, o.Value.Phase, o.Value.Reason)
			}
		}
		if n.of("pass") != 3 {
			t.Errorf("%d panics are counted", n.of("pass"))
		}
	})
}

// The audit of all groups starts again from the records, and the leader continues to lead.
func TestAPanicInTheAuditOfAllGroupsEndsNoLeader(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		n, audits := &panics{}, &atomic.Int64{}
		w.coordinator("coordinator-0", func(_ *life, cfg *simulated.Config) {
			cfg.Members = crashingMembers{cfg.Members.(members), audits}
			cfg.Panics = n.contained()
		})
		w.apply(spec("one"))
		w.until("creation", 5*time.Minute, w.complete("one"))
		w.until("more audits", 10*time.Minute, func() bool { return audits.Load() > 4 })
		if n.of("audit") < 4 || w.term() != 1 {
			t.Errorf("%d panics are counted in term %d", n.of("audit"), w.term())
		}
	})
}

type crashingMembers struct {
	members
	audits *atomic.Int64
}

func (c crashingMembers) SlotTokens(context.Context) ([]tokens.Owned, error) {
	c.audits.Add(1)
	panic("nil pointer")
}
