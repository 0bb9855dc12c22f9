package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/queue"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// Cluster is the name of every simulated cluster.
const Cluster = "sim"

// World is the true state, known or unknown to the coordinators. Make it with [New]; safe for
// concurrent use.
type World struct {
	plan  plan.Plan
	store *storetest.Memory
	began time.Time
	log   *slog.Logger

	mu sync.Mutex
	// All below are guarded by mu.
	trace trace.Trace
	// cloud has the CVMs; calls counts the calls to it.
	cloud *cloud.Cloud[*cvm]
	calls int
	// boots counts the Boots of all CVMs, asked counts their requests for admission.
	boots int
	asked uint64
	// asks counts the operator's requests.
	asks int
	// workloads by group.
	workloads map[string]*workload
	// coordinators by Slot.
	coordinators map[string]*process
	// clocks are the offsets of the coordinators' clocks. A clock is set while its process is down, too.
	clocks map[string]time.Duration
	// cuts are the broken connections; see links.go.
	cuts map[cut]int
	// draws counts the decisions of each kind, so that each has its own number.
	draws map[string]uint64
	// full is called when a run has more events than any settled run.
	full func()
	// passes since a minute began, by their results.
	passes map[string]int
	minute time.Duration
	// healed: all faults have ended. faults counts the injected faults.
	healed bool
	faults int
	// shown is the platform's list in place of the true one; nil: the true one.
	shown []platform.Instance
	// refusing counts the faults that make the platform refuse each call.
	refusing int
	// steps of coordinators: see plan.Plan.CrashPoints.
	steps int
	// relinked closes when a connection between a coordinator and a member opens or closes.
	relinked chan struct{}
	// spawn runs f until the world ends, or until the returned function is called; see Run.
	spawn func(f func(context.Context)) context.CancelFunc
	// altered are records that coordinators changed in place.
	altered   []string
	operators operators
}

// maxEvents of a run, for each group; the longest settled run had a tenth of it.
const maxEvents = 50_000

// New makes a world in which nothing runs yet. log receives the coordinators' log lines. full is
// called once, when the number of events shows that the run never settles.
func New(p plan.Plan, log *slog.Logger, full func()) *World {
	w := &World{
		full: full,
		plan: p, store: storetest.NewMemory(), began: time.Now(), log: log,
		workloads: map[string]*workload{}, coordinators: map[string]*process{}, clocks: map[string]time.Duration{},
		operators: newOperators(), cuts: map[cut]int{}, draws: map[string]uint64{}, relinked: make(chan struct{}),
		spawn: func(func(context.Context)) context.CancelFunc { return func() {} },
	}
	w.cloud = cloud.New(cloud.Config[*cvm]{Lock: &w.mu, Guest: w.guest, BootTakes: w.bootTakes, Settle: settle, StopFirst: p.StopFirst})
	for _, g := range p.Groups {
		w.workloads[g.Name] = &workload{kind: g.Workload, epoch: 1}
	}
	w.store.OnCommitted(w.committed)
	return w
}

// Trace returns all events so far.
func (w *World) Trace() trace.Trace {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.trace)
}

// Altered are the keys of records that coordinators changed in their shared memory and not in the
// store. It is complete once [World.Run] ended.
func (w *World) Altered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.altered)
}

// noteLocked adds an event; the caller holds mu.
func (w *World) noteLocked(e trace.Event) {
	if n := len(w.trace); n > 0 && w.trace[n-1].Kind == trace.Settled {
		return // the run is over; a goroutine that wakes at the same moment may not know that yet
	}
	e.At = time.Since(w.began)
	if w.trace = append(w.trace, e); len(w.trace) == maxEvents*len(w.plan.Groups) {
		w.full()
	}
}

// maxPasses of all coordinators within a minute, for each group: a step takes some twenty.
const maxPasses = 3000

// passed counts the passes over the group. A loop of passes without a change writes nothing and
// calls nothing, so no other count shows it; the run ends.
func (w *World) passed(result string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Since(w.began).Truncate(time.Minute); now != w.minute || w.passes == nil {
		w.minute, w.passes = now, map[string]int{}
	}
	w.passes[result]++
	total := 0
	for _, n := range w.passes {
		total += n
	}
	if total == maxPasses*len(w.plan.Groups) {
		w.noteLocked(trace.Event{Kind: trace.Faulted, By: "operator", Text: fmt.Sprintf("stops: coordinators looked at the group so often within a minute: %v", w.passes)})
		w.full()
	}
}

// say records an action that writes no record.
func (w *World) say(by, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(trace.Event{Kind: trace.Faulted, By: by, Text: text})
}

// committed adds the effects of a transaction, one event per record.
func (w *World) committed(c storetest.Committed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	deleted := 0
	for _, op := range c.Ops {
		e := trace.Event{Kind: trace.Committed, By: c.Holder, Term: c.Term, Index: c.Index, Key: op.Key}
		switch op.Kind {
		case store.OpPut, store.OpPutCAS:
			read(&e, op.Value)
		case store.OpDelete, store.OpDeleteCAS:
			e.Deleted = true
			read(&e, c.Before[deleted])
			deleted++
		default:
			continue
		}
		w.noteLocked(e)
		w.knowLocked(e)
		w.asksLocked(e, op.Value)
	}
}

// read adds the record in value to e, by e.Key; an unreadable value is no record.
func read(e *trace.Event, value []byte) {
	parts := segments(e.Key)
	last := parts[len(parts)-1]
	switch {
	case parts[0] == "operations":
		if e.Operation = decode[operationRecord](value); e.Operation != nil {
			e.Group, e.Slot = e.Operation.Group, e.Operation.Slot
		}
	case parts[0] == "slots" && len(parts) == 3:
		e.Bound, e.Group, e.Slot = decode[group.SlotRecord](value), parts[1], last
	case parts[0] == "admissions":
		if e.Admission, e.Slot = decode[policy.Admission](value), last; e.Admission != nil {
			e.Group, e.Boot = e.Admission.Group, e.Admission.BootID
		}
	case parts[0] == "policy" && parts[1] == "slots":
		if e.Policy, e.Slot = decode[policy.SlotPolicy](value), last; e.Policy != nil {
			e.Group = e.Policy.Group
		}
	case parts[0] == "audit" && e.Key != store.AuditHeadKey:
		e.Entry = decode[audit.Entry](value)
	case parts[0] == "rollouts":
		if e.Rollout = decode[operation.Rollout](value); e.Rollout != nil {
			e.Group = e.Rollout.Group
		}
	case strings.HasPrefix(e.Key, store.DeleteDisksPrefix):
		e.GivenUp, e.Group = decode[store.DeleteDisks](value), last
	case strings.HasPrefix(e.Key, store.DeletePrefix):
		e.Ending, e.Group = decode[store.DeleteGroup](value), last
	case strings.HasPrefix(e.Key, store.OverrideExclude.Prefix()):
		e.Excluded, e.Slot = decode[store.Override](value), last
	case strings.HasPrefix(e.Key, store.OverrideGate.Prefix()):
		e.Gate = decode[store.Override](value)
	case strings.HasPrefix(e.Key, store.QueuePrefix):
		if e.Asked = decode[store.QueueRequest](value); e.Asked != nil {
			e.Group, e.Slot = e.Asked.Group, e.Asked.Slot
		}
	case e.Key == store.LimitsKey():
		e.Limits = decode[store.Limits](value)
	case parts[0] == "groups" && len(parts) == 4 && parts[2] == "slots":
		e.Group, e.Slot, e.Limited = parts[1], last, bytes.Contains(value, heldByLimit)
		e.Gated = bytes.Contains(value, heldByGate) && onlyHeldBy(value, rollout.HoldGateClosed) != ""
		if e.Limited {
			if found := limitNamed.FindStringSubmatch(onlyHeldBy(value, rollout.HoldClusterLimit)); found != nil {
				e.Waits = queue.Limit(found[1])
			}
		}
	case parts[0] == "groups" && last == "accepted":
		e.Group = parts[1]
		if accepted := decode[store.AcceptedSpec](value); accepted != nil {
			e.Spec = decode[group.Spec](accepted.Spec)
		}
	}
}

// heldByLimit is the part of a Slot's status that has a hold by a limit of the cluster.
var heldByLimit = []byte(`"predicate":"` + rollout.HoldClusterLimit + `"`)

// heldByGate is the part of a Slot's status that has a hold by a gate.
var heldByGate = []byte(`"predicate":"` + rollout.HoldGateClosed + `"`)

// heldByStage is the part of a Slot's status that has a hold by a stage that waits for its promotion.
var heldByStage = []byte(`"predicate":"` + rollout.HoldStagePromotion + `"`)

// limitNamed finds the limit in the message of its hold.
var limitNamed = regexp.MustCompile(`^the cluster limit (\w+) = `)

// onlyHeldBy returns the message of the first hold in a Slot's status, if each hold there has that name; "": another one
// is there.
func onlyHeldBy(value []byte, name string) string {
	of := decode[group.InstanceStatus](value)
	if of == nil || slices.ContainsFunc(of.Holds, func(h group.Hold) bool { return h.Predicate != name }) || len(of.Holds) == 0 {
		return ""
	}
	return of.Holds[0].Message
}

func decode[T any](value []byte) *T {
	out := new(T)
	if json.Unmarshal(value, out) != nil {
		return nil
	}
	return out
}

// Apply writes a spec as an operator does.
func (w *World) Apply(ctx context.Context, s group.Spec) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return w.store.Commit(ctx, store.Op{Kind: store.OpPut, Key: store.GroupSpecKey(s.Name), Value: raw})
}

// Run runs the coordinators, the members and the faults, until ctx ends.
func (w *World) Run(ctx context.Context) {
	var all sync.WaitGroup
	w.mu.Lock()
	w.spawn = func(f func(context.Context)) context.CancelFunc {
		life, end := context.WithCancel(ctx)
		if ctx.Err() == nil {
			all.Go(func() { f(life) })
		}
		return end
	}
	w.mu.Unlock()
	for n := range w.plan.Coordinators {
		all.Go(func() { w.keep(ctx, plan.Coordinator(n)) })
	}
	all.Go(func() { w.faultsOverTime(ctx) })
	if len(w.plan.Limits) > 0 {
		all.Go(func() { w.limits(ctx) })
	}
	for _, g := range w.plan.Groups {
		if g.Approval > 0 {
			all.Go(func() { w.approves(ctx, g) })
		}
		if g.Gate.On != "" {
			all.Go(func() { w.opens(ctx, g) })
		}
		if g.Promote > 0 {
			all.Go(func() { w.promotes(ctx, g) })
		}
	}
	all.Wait()
}
