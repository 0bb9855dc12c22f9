package reconcile_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/simulated"
	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/platform"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// world is a cluster without machines: a platform whose CVMs boot after a while, members that
// follow their orders, and any number of coordinators on one store.
type world struct {
	t     *testing.T
	store *storetest.Memory
	// seen is the last decoded View, of the records in decoded. Only the test's own goroutine uses
	// it.
	seen    *view.View
	decoded []store.Entry
	// settle is how long the platform may hide an effect; zero: the default. It is set
	// before coordinators run.
	settle time.Duration

	mu sync.Mutex
	// read is the last status that was read, of records that were written at readAt.
	read   group.Status
	readAt [2]uint64
	// All below are guarded by mu.
	cloud *cloud.Cloud[*member]
	// coordinators, in the order in which they began.
	coordinators []*life
	// bootings counts the Boots of all CVMs, proofs counts their requests for admission.
	bootings int
	proofs   uint64
	// leader is the Slot that leads the workload.
	leader string
	epoch  uint64
	// calls with an effect, in order, such as "update demo-pg-1".
	calls []string
	// fault decides the outcome of a call; nil: the call works.
	fault func(call string) (apply bool, err error)
	// late is when calls without an answer take effect; zero: never.
	late time.Duration
	// behind: Boots from then on lag behind, by a changing figure; zero: all are caught up.
	behind time.Time
	// saysTerm, by Slot, is the Term that its agent reports instead of the Term that it saw.
	saysTerm map[string]uint64
	// cutOff are the Slots whose agents reach no coordinator.
	cutOff map[string]bool
	// retired are the accessors of removed Slots; evicted are Slots with the code, in order.
	retired, evicted []string
	// nodes and owned are the contents of Consul.
	nodes map[string]tokens.Node
	owned []tokens.Owned
	// answer changes the document that the platform would measure; nil: the document as sent.
	answer func(t platform.Template, p *platform.Provisioned)
	// measureError is why the platform does not answer a measurement request; nil: the platform answers.
	measureError error
	// offer is the platform's offer; zero: the platform does not list it.
	offer platform.Offer
	// offersAsked counts the questions about the offer.
	offersAsked int
	// hosts are the platform's nodes.
	hosts []platform.Node
	// away is the highest number of members that were away at once.
	away   int
	listed int // how often the platform was listed
}

const cluster = "demo"

// ownApp is the coordinators' app.
var ownApp = strings.Repeat("c0", 20)

// begin gives a test a world in virtual time without a running coordinator.
func begin(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, store: storetest.NewMemory(), epoch: 1}
		w.cloud = cloud.New(cloud.Config[*member]{Lock: &w.mu, Guest: w.guest, BootTakes: func(*cloud.CVM[*member]) time.Duration { return 3 * time.Second }})
		var members sync.WaitGroup
		members.Go(func() { w.members(ctx) })
		defer func() {
			cancel()
			members.Wait()
			for _, l := range w.coordinators {
				l.stop()
			}
		}()
		test(t, w)
	})
}

// run gives a test a world with a coordinator.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	begin(t, func(t *testing.T, w *world) {
		w.coordinator("coordinator-0")
		test(t, w)
	})
}

// life is a coordinator's process.
type life struct {
	*simulated.Coordinator
	cancel context.CancelFunc
	// armed: the process dies at its failpoint, where it must go no further. died is closed at its
	// death, and buried lets the remaining goroutines end.
	armed        atomic.Bool
	died, buried chan struct{}
	ended        chan struct{}
	// stop ends the process in order, or its remaining goroutines.
	stop func()
}

func (l *life) over() bool { return closed(l.ended) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// coordinator starts a coordinator that runs until it is stopped, or until the test's end.
func (w *world) coordinator(slot string, options ...option) *life {
	l := &life{died: make(chan struct{}), buried: make(chan struct{}), ended: make(chan struct{})}
	cfg := simulated.Config{
		Cluster: cluster, Slot: slot, OwnApp: ownApp, Store: w.store, Platform: link{w.cloud.Link(w.carry), w}, Images: images,
		Now: time.Now, Failpoint: func(string) {}, Passed: func(string) {}, Log: slog.New(slog.DiscardHandler),
		Tokens: w, Members: members{w}, LeaseNode: leaseNode, Evicted: w.evict,
	}
	for _, o := range options {
		o(l, &cfg)
	}
	l.Coordinator = simulated.New(cfg)
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(w.t.Context())
	l.stop = sync.OnceFunc(func() {
		l.cancel()
		close(l.buried)
		<-l.ended
	})
	w.mu.Lock()
	w.coordinators = append(w.coordinators, l)
	w.mu.Unlock()
	go func() {
		defer close(l.ended)
		l.Run(ctx)
	}()
	return l
}

// aliveLocked are the coordinators that members reach.
func (w *world) aliveLocked() (out []*life) {
	for _, l := range w.coordinators {
		if !l.over() && !closed(l.died) {
			out = append(out, l)
		}
	}
	return out
}

// option changes the configuration of a process.
type option func(l *life, c *simulated.Config)

// diesAt stops the process at the point, once it is armed.
func diesAt(point string) option {
	return func(l *life, c *simulated.Config) {
		c.Failpoint = func(name string) {
			if name == point && l.armed.CompareAndSwap(true, false) {
				close(l.died)
				<-l.buried
			}
		}
	}
}

// stopsAt ends the process in order at the point.
func stopsAt(point string) option {
	return func(l *life, c *simulated.Config) {
		c.Failpoint = func(name string) {
			if name == point && l.armed.Load() {
				l.cancel()
			}
		}
	}
}

// clock is a wall clock with an offset that may change while the process runs.
func clock(off func() time.Duration) option {
	return func(_ *life, c *simulated.Config) { c.Now = func() time.Time { return time.Now().Add(off()) } }
}

func (w *world) StrayOperators(ctx context.Context, recorded func(context.Context) (map[string]bool, error)) (int, error) {
	_, err := recorded(ctx)
	return 0, err
}

func (w *world) Sweep(context.Context) (tokens.Swept, error) {
	return tokens.Swept{}, nil
}

func (w *world) Retire(_ context.Context, slot string, accessors ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = append(w.retired, append([]string{slot}, accessors...)...)
	return nil
}

func (w *world) evict(slot string, code policy.Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evicted = append(w.evicted, slot+" "+string(code))
}

// leaseNode is the node that sessions are on.
const leaseNode = store.LeaseNodePrefix + "0011"

// members is Consul as the audit sees it.
type members struct{ *world }

func (w members) Nodes(context.Context) (map[string]tokens.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.nodes), nil
}

func (w members) SlotTokens(context.Context) ([]tokens.Owned, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.owned), nil
}

func (w members) Revoke(_ context.Context, accessors ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = append(w.retired, accessors...)
	w.owned = slices.DeleteFunc(w.owned, func(t tokens.Owned) bool { return slices.Contains(accessors, t.Accessor) })
	return nil
}

// spec of three members under Patroni; release makes the Revision.
func spec(release string) group.Spec {
	ready := 2
	s := group.Spec{
		Name: "pg", Platform: "phala", Replicas: 3, ManagementPolicy: group.Parallel,
		Template: group.Template{
			Compose:      "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n    environment:\n      RELEASE: " + release + "\n",
			InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &ready},
		Workload:     group.Workload{Kind: group.WorkloadPatroni},
	}
	s.Normalize()
	return s
}

// apply writes a spec as an operator does.
func (w *world) apply(s any) {
	w.t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(store.GroupSpecKey("pg"), raw)
}

func (w *world) putJSON(key string, value any) {
	w.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(key, raw)
}

func (w *world) put(key string, raw []byte) {
	w.t.Helper()
	if err := w.store.Commit(w.t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: raw}); err != nil {
		w.t.Fatal(err)
	}
}

// status is the leader's report. It is decoded again only after a write: tests read it each tenth
// of a second, for hours.
func (w *world) status() group.Status {
	w.t.Helper()
	of, err := w.store.Get(w.t.Context(), store.GroupStatusKey("pg"))
	if err != nil {
		return group.Status{}
	}
	_, slots, err := w.store.List(w.t.Context(), store.SlotStatusesOf("pg"))
	if err != nil {
		return group.Status{}
	}
	if now := [2]uint64{of.Index, slots}; w.readAt != now {
		w.read, err = view.ReadStatus(w.t.Context(), w.store, "pg")
		if err != nil {
			return group.Status{}
		}
		w.readAt = now
	}
	return w.read
}

// until waits in virtual time.
func (w *world) until(what string, limit time.Duration, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			st := w.status()
			text, _ := json.MarshalIndent(st, "", " ")
			w.t.Fatalf("%s: not within %v; calls %v; status %s", what, limit, w.made(""), text)
		}
		tick(w.t.Context(), 100*time.Millisecond)
	}
}

func (w *world) complete(release string) func() bool {
	s := spec(release)
	target := s.Revision()
	return func() bool {
		st := w.status()
		return st.Target == target && st.Stable == target && st.Available == 3
	}
}

// made lists the calls with an effect of one kind.
func (w *world) made(kind string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, c := range w.calls {
		if strings.HasPrefix(c, kind) {
			out = append(out, c)
		}
	}
	return out
}

func tick(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
