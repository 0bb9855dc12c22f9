package reconcile_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/operate"
	"cadre.dev/coordinator/internal/ratchet"
	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/vet"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// world is a cluster without machines: a platform whose CVMs boot after a while,
// agents that follow their orders, and any number of coordinators on one store.
type world struct {
	t       *testing.T
	store   *storetest.Memory
	reports *reports.Reports
	views   *view.Watcher

	mu sync.Mutex
	// cvms by name; all below guarded by mu.
	cvms  map[string]*cvm
	order int
	// createdLocked counts the CVMs that were ever asked for.
	createdLocked int
	leader        string // Slot that leads the workload
	epoch         uint64
	// calls with an effect, in order, such as "update demo-pg-1".
	calls []string
	// fault decides what happens to a call; nil: it works.
	fault func(call string) (apply bool, err error)
	// late is when calls without an answer take effect after all; zero: never.
	late time.Duration
	// settle is how long the platform may hide an effect; zero: the default.
	settle time.Duration
	// behind: Boots from then on are not caught up, by an ever different figure;
	// zero: all are.
	behind time.Time
	// seenState, by Slot, is the highest that its agent was told.
	seenState map[string]uint64
	// seenTerm, by Slot, is what its agent says of the Term instead of what it saw.
	seenTerm map[string]uint64
	// retired are the accessors of Slots that are gone.
	retired []string
	// evicted are Slots with the code, in order; nodes and owned what Consul knows.
	evicted []string
	nodes   map[string]tokens.Node
	owned   []tokens.Owned
	// app is what the platform answers to be asked for one.
	app string
	// answer changes what the platform says that it would measure; nil: what it was sent.
	answer func(t platform.Template, p *platform.Provisioned)
	// offer is what the platform has to choose from; zero: it does not tell.
	offer platform.Offer
	// attests: agents attest again when their policy's epoch grew, as real ones do.
	attests bool
	// away is the worst number of members that were away at once.
	away   int
	listed int // how often the platform was listed; guarded by mu
}

type cvm struct {
	platform.Instance
	slot   string
	env    map[string]string // as the last call gave it
	booted bool
	// forgotten: the records of its Slot were lost while it ran.
	forgotten bool
	bootID    string
	bootAt    time.Time
	drained   map[string]bool // by Operation
	seq       uint64
}

// The app that the platform makes for the group, and that of the coordinators.
var (
	groupApp = fmt.Sprintf("%040d", 7)
	ownApp   = strings.Repeat("c0", 20)
)

const bootTime = 3 * time.Second

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: storetest.NewMemory(), cvms: map[string]*cvm{}, seenState: map[string]uint64{}, epoch: 1, app: groupApp}
	w.reports = reports.New(time.Now)
	w.views = view.NewWatcher(w.store, slog.New(slog.DiscardHandler))
	return w
}

// start runs the agents and the view until the test's end.
func (w *world) start(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() { _ = w.views.Run(ctx) })
	all.Go(func() { w.agents(ctx) })
	return all.Wait
}

// coordinator runs one reconciler until its context ends.
func (w *world) coordinator(ctx context.Context, slot string, failpoint func(string)) (wait func()) {
	return w.coordinatorAt(ctx, slot, 0, failpoint)
}

// skewed are the reports with the times of a coordinator whose clock is off by so much.
type skewed struct {
	*reports.Reports
	by func() time.Duration
}

func (s skewed) Of(slot string) (reports.Received, bool) {
	got, ok := s.Reports.Of(slot)
	got.At = got.At.Add(s.by())
	if !got.CutAt.IsZero() {
		got.CutAt = got.CutAt.Add(s.by())
	}
	return got, ok
}

// coordinatorAt is coordinator with a clock that is off by so much.
func (w *world) coordinatorAt(ctx context.Context, slot string, off time.Duration, failpoint func(string)) (wait func()) {
	return w.coordinatorBy(ctx, slot, func() time.Duration { return off }, failpoint)
}

// coordinatorBy is coordinator with a clock that is set while it runs.
func (w *world) coordinatorBy(ctx context.Context, slot string, off func() time.Duration, failpoint func(string)) (wait func()) {
	clock := func() time.Time { return time.Now().Add(off()) }
	if failpoint == nil {
		failpoint = func(string) {}
	}
	log := slog.New(slog.DiscardHandler)
	listing := observe.NewPlatform(w, clock, 10*time.Second)
	judge := vet.New(ownApp, nil)
	turns := ratchet.New(w.store, w.reports, clock)
	operator := operate.New(operate.Config{
		Cluster: "demo", Timing: rollout.Timing{Settle: w.settle}, Ratchet: turns, Vet: judge, Measure: measure.New("demo", appcompose.Rules{}), Store: w.store, Platform: w, Listing: listing, Wake: func(string) {},
		Look: observe.Looker{Cluster: "demo", Store: w.store, Views: w.views, Listing: listing, Reports: skewed{w.reports, off}}.Look,
		Now:  clock, Failpoint: failpoint, Log: log, Metrics: noMetrics{},
	})
	r := reconcile.New(reconcile.Config{
		Cluster: "demo", Slot: slot, Store: w.store, Views: w.views, Listing: listing, Reports: skewed{w.reports, off}, Ratchet: turns, Operator: operator, Tokens: w, Vet: judge, Images: images, Guard: w.guard, Members: members{w}, LeaseNode: leaseNode,
		Timing: rollout.Timing{Settle: w.settle}, Now: clock, Failpoint: failpoint, Log: log, Metrics: noMetrics{},
	})
	var all sync.WaitGroup
	all.Go(func() { _ = r.Run(ctx) })
	return all.Wait
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

// guard does what admission's does.
func (w *world) guard(ctx context.Context, _ store.Lease) {
	for {
		v, changed := w.views.Latest()
		if v != nil {
			for slot, a := range v.Admissions {
				if d := v.Unfit(a.Value, v.Policies[slot].Value); d.Code != "" {
					w.evict(ctx, a.Value, a.Index, d.Code)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// evict ends the admission; the CVM then asks for a new one.
func (w *world) evict(ctx context.Context, a policy.Admission, index uint64, code policy.Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.store.Commit(ctx, store.Op{Kind: store.OpDeleteCAS, Key: store.AdmissionKey(a.Slot), Index: index}); err != nil {
		return // the view was behind
	}
	w.evicted = append(w.evicted, a.Slot+" "+string(code))
	w.retired = append(w.retired, append([]string{a.Slot}, a.TokenAccessors...)...)
	for _, c := range w.cvms {
		if c.slot == a.Slot {
			c.booted = false
		}
	}
	if w.leader == a.Slot {
		w.leader = "" // cut off from the others, it leads nobody
		w.epoch++
	}
}

// leaseNode is the one that sessions are on.
const leaseNode = store.LeaseNodePrefix + "0011"

// members is what Consul knows.
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

type noMetrics struct{}

func (noMetrics) Leads(bool, uint64)           {}
func (noMetrics) Pass(string, string, float64) {}
func (noMetrics) Call(string, string)          {}

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

func (w *world) status() group.Status {
	w.t.Helper()
	s, err := view.ReadStatus(w.t.Context(), w.store, "pg")
	if err != nil {
		return group.Status{}
	}
	return s
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

func hashOf(t platform.Template) string {
	sum := sha256.Sum256(t.AppCompose)
	return hex.EncodeToString(sum[:])
}

// agents ticks every CVM: admission at boot, then orders and reports.
func (w *world) agents(ctx context.Context) {
	for ctx.Err() == nil {
		// What a coordinator would tell them: reading all records anew costs more than all
		// else in these tests together.
		if v, _ := w.views.Latest(); v != nil {
			w.mu.Lock()
			down := 0
			for _, name := range sortedNames(w.cvms) {
				c := w.cvms[name]
				w.tickLocked(ctx, v, c)
				if !c.booted {
					down++
				}
			}
			if len(w.cvms) == 3 && w.leader != "" {
				w.away = max(w.away, down)
			}
			w.mu.Unlock()
		}
		tick(ctx, 250*time.Millisecond)
	}
}

func sortedNames(m map[string]*cvm) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (w *world) tickLocked(ctx context.Context, v *view.View, c *cvm) {
	if c.InProgress || c.Status == "stopped" {
		return
	}
	_, admitted := v.Admissions[c.slot]
	switch {
	case c.booted && !admitted && v.Policies[c.slot].Value.InstanceID == "":
		c.forgotten = true // nobody says that it is the Slot no more: it keeps its key
		return
	case c.forgotten && !w.admitLocked(ctx, v, c):
		return
	case c.booted && v.Admissions[c.slot].Value.BootID != c.bootID && !c.forgotten:
		c.booted = false // the records name another one: it attests again
		return
	case !c.booted && !w.admitLocked(ctx, v, c):
		return
	}
	if p, a := v.Policies[c.slot].Value, v.Admissions[c.slot].Value; w.attests && a.BootID == c.bootID && p.Epoch > a.Epoch {
		c.forgotten = true // the same key
		w.admitLocked(ctx, v, c)
		c.forgotten = false
		return
	}
	if w.leader == "" {
		w.leader = c.slot
		w.epoch++
	}
	desired, err := control.Desired(v, spec("any"), c.slot, c.bootID)
	if err != nil {
		return
	}
	c.forgotten = false
	w.seenState[c.slot] = max(w.seenState[c.slot], desired.GetState())
	w.reportLocked(c, desired.GetOperation())
}

// admitLocked is what admission does when a Boot shows the right evidence.
func (w *world) admitLocked(ctx context.Context, v *view.View, c *cvm) bool {
	p, ok := v.Policies[c.slot]
	if !ok || p.Value.InstanceID != c.InstanceID {
		return false
	}
	for _, a := range slices.Backward(p.Value.Allowed) {
		if a.ComposeHash != c.ComposeHash || c.OSImage != "" && a.OSImage != c.OSImage {
			continue
		}
		w.order++
		before := v.Admissions[c.slot]
		boot := fmt.Sprintf("boot-%d", w.order)
		if c.forgotten {
			boot = c.bootID
		}
		admission := policy.Admission{
			Group: "pg", Slot: c.slot, BootID: boot, InstanceID: c.InstanceID, AppID: c.AppID, Revision: a.Revision, Epoch: p.Value.Epoch,
			Generation: before.Value.Generation + 1, AdmittedAt: time.Now(), TokenAccessors: []string{"token of " + boot},
		}
		if c.forgotten && before.Index != 0 && before.Value.Revision != a.Revision && !a.Refresh {
			continue // a Boot stays at what it was admitted at, of what measures the same
		}
		now := p.Value.Revoking(v.Gate.Revocations)
		if policy.Barred(admission, now).Code != "" || now.RequireApproval && !a.Approved {
			continue
		}
		op, err := store.Put(store.AdmissionKey(c.slot), admission, before.Index)
		if err != nil || w.store.Commit(ctx, op) != nil {
			return false
		}
		if c.forgotten {
			return true
		}
		c.booted, c.bootID, c.bootAt, c.drained, c.seq = true, boot, time.Now(), map[string]bool{}, 0
		return true
	}
	return false
}

// reportLocked answers the order: the leader hands over to the first candidate,
// if it leads as expected, then says done.
func (w *world) reportLocked(c *cvm, order *controlv1.OperationOrder) {
	c.seq++
	role, caught := controlv1.Role_ROLE_FOLLOWER, true
	var steps []*controlv1.StepResult
	if order != nil {
		step := &controlv1.StepResult{OperationId: order.GetOperationId(), Verb: order.GetVerb(), Attempt: order.GetAttempt(), State: controlv1.StepState_STEP_STATE_DONE}
		if order.GetVerb() == controlv1.Verb_VERB_DRAIN && w.leader == c.slot && len(order.GetTransferCandidates()) > 0 {
			w.leader = order.GetTransferCandidates()[0]
			w.epoch++
			w.calls = append(w.calls, "transfer "+c.slot+" to "+w.leader)
			c.drained[order.GetOperationId()] = true
		}
		if c.drained[order.GetOperationId()] {
			step.Transferred, step.NewLeader = true, w.leader
		}
		steps = append(steps, step)
	}
	if w.leader == c.slot {
		role = controlv1.Role_ROLE_LEADER
	}
	var lag *int64
	if !w.behind.IsZero() && c.bootAt.After(w.behind) {
		bytes := int64(c.seq) * 704
		caught, lag = false, &bytes
	}
	w.reports.Put(c.slot, c.bootID, &controlv1.Report{
		Sequence: c.seq, Term: w.seenTerm[c.slot], State: w.seenState[c.slot], MemberKnown: true, Steps: steps,
		HealthyFor: durationpb.New(time.Since(c.bootAt)), BootAt: timestamppb.New(c.bootAt),
		Member: &controlv1.MemberView{Role: role, Alive: true, Ready: true, CaughtUp: &caught, Leader: w.leader, Epoch: w.epoch, MayDisrupt: true, LagBytes: lag},
	})
}
