package status

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// The metrics of each group. They are read from the leader's records at each scrape, so they are
// never stale, and nothing is computed twice.
var (
	descWanted    = groupDesc("slots_wanted", "Slots that the group is to have.")
	descAvailable = groupDesc("slots_available", "Slots that are available.")
	descUpdated   = groupDesc("slots_updated", "Slots that are proven at the target revision.")
	descSlots     = groupDesc("slots", "Slots by the word for their state; those of a rollout's time count too.", "state")
	descNodes     = groupDesc("slots_on_node", "Slots by the platform's node of their CVM, where the group's records name nodes: on a platform of several hosts, or with a placement.", "node")
	descCondition = groupDesc("condition", "1 for a true condition of the group's status, 0 for a false one.", "condition")
	descRollout   = groupDesc("rollout_state", "1 for the state that the group's rollout has.", "state")
	descPaused    = groupDesc("paused", "1 while an operator paused or froze the group.")
	descHolds     = groupDesc("holds", "Slots whose next step is held, by the name of the hold.", "hold")
	descOpen      = groupDesc("operations_open", "Operations that have not ended, by action and phase.", "action", "phase")
	descOldest    = groupDesc("oldest_operation_timestamp_seconds", "When the oldest operation that has not ended was recorded, by action; absent while there is none.", "action")
)

func groupDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cadre_group_"+name, help, append([]string{"group"}, labels...), nil)
}

// rolloutStates are all states: for each group exactly one is 1.
var rolloutStates = []operation.RolloutState{
	operation.Running, operation.BakingState, operation.PausedState, operation.Complete, operation.PartitionReached, operation.FailedState, operation.SupersededState,
	operation.RollingBack, operation.RolledBack,
}

// groups are the metrics of all groups.
//
// Only the leader serves the gauges. Each coordinator serves its own counters: it counts its own
// writes as leader, right after the store accepted them. A transition is written once, with
// check-and-set, so none is counted twice. After a change of leader the former leader still serves
// its counts. Two writes are not counted: one whose answer was lost, and one after which the
// process died.
type groups struct {
	read  func() *view.View // nil: the records cannot be read
	leads func() bool

	ended       *prometheus.CounterVec
	heals       *prometheus.CounterVec
	quarantines *prometheus.CounterVec
	memberships *prometheus.CounterVec
	outages     *prometheus.HistogramVec
	passes      *prometheus.CounterVec
	counted     []counted // all counters and histograms

	mu    sync.Mutex
	named map[string]struct{} // guarded by mu; the groups in any counter
}

// counted are counters or a histogram with a label for the group.
type counted interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

func newGroups() *groups {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_group_" + name, Help: help}, append([]string{"group"}, labels...))
	}
	g := &groups{
		read: func() *view.View { return nil }, leads: func() bool { return false }, named: map[string]struct{}{},
		ended:       counter("operations_total", "Operations that ended, by action, actor and phase.", "action", "actor", "outcome"),
		heals:       counter("heal_attempts_total", "Operations that healing began.", "action"),
		quarantines: counter("quarantines_total", "Times that healing gave a slot up."),
		memberships: counter("set_changes_total", "Members that the workload's set added (add), that got their vote and serve (promote), and that it removed (remove).", "change"),
		outages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cadre_group_healed_outage_seconds", Help: "Time from when a slot was seen to be unavailable to when it was available again, min_ready_seconds aside, where healing did something in between.",
			Buckets: []float64{5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400},
		}, []string{"group"}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cadre_reconcile_passes_total", Help: "Passes of the reconcile loop by result."}, []string{"group", "result"}),
	}
	g.counted = []counted{g.ended, g.heals, g.quarantines, g.memberships, g.outages, g.passes}
	return g
}

// Groups serves the metrics of the groups in these records; read returns nil while they are
// unknown.
func (m *Metrics) Groups(read func() *view.View) { m.groups.read = read }

// Began counts a newly recorded Operation.
func (m *Metrics) Began(op operation.Operation) {
	if op.Actor == operation.ActorHealing {
		m.groups.note(op.Group)
		m.groups.heals.WithLabelValues(op.Group, action(op.Kind)).Inc()
	}
}

// Ended counts an Operation whose end was just written.
func (m *Metrics) Ended(op operation.Operation) {
	m.groups.note(op.Group)
	m.groups.ended.WithLabelValues(op.Group, action(op.Kind), actor(op.Actor), string(op.Phase)).Inc()
	if op.Phase == operation.Done && op.Set.Leaves {
		m.groups.memberships.WithLabelValues(op.Group, string(group.SetRemove)).Inc()
	}
}

// SlotWritten counts the changes in a Slot record that was just written.
func (m *Metrics) SlotWritten(before, after group.SlotRecord) {
	m.groups.note(after.Group)
	count := func(change group.SetVerb) { m.groups.memberships.WithLabelValues(after.Group, string(change)).Inc() }
	if took, healed := healedOutage(before, after); healed {
		m.groups.outages.WithLabelValues(after.Group).Observe(took.Seconds())
	}
	was, is := before.Membership, after.Membership
	if was == nil || !was.Joins {
		return
	}
	joined := is == nil || !is.Joins // it has its vote, and serves
	if len(was.Set) == 0 && (joined || len(is.Set) > 0) {
		count(group.SetAdd)
	}
	if joined {
		count(group.SetPromote)
	}
}

// healedOutage returns how long a recovered Slot was unavailable; healed: an action healed it in
// this outage.
func healedOutage(before, after group.SlotRecord) (took time.Duration, healed bool) {
	from, h := before.UnavailableSince, before.Heals
	if from.IsZero() || !after.UnavailableSince.IsZero() || after.AvailableSince.IsZero() || h == nil || h.LastAt.Before(from) {
		return 0, false
	}
	return max(after.AvailableSince.Sub(from), 0), true
}

// StateWritten counts the changes in a Slot's status that was just written.
func (m *Metrics) StateWritten(before, after group.InstanceStatus) {
	if after.State == group.SlotQuarantined && before.State != after.State {
		m.groups.note(after.Group)
		m.groups.quarantines.WithLabelValues(after.Group).Inc()
	}
}

// action and actor return fixed labels, also for unexpected values in a record.
func action(k operation.Kind) string {
	switch k {
	case operation.Create, operation.Update, operation.Restart, operation.Delete, operation.Replace, operation.Drain, operation.Stop:
		return string(k)
	default:
		return "other"
	}
}

func actor(a operation.Actor) string {
	switch a {
	case operation.ActorRollout, "":
		return string(operation.ActorRollout)
	case operation.ActorOperator, operation.ActorHealing, operation.ActorScaling:
		return string(a)
	default:
		return "other"
	}
}

// note records that counters name the group.
func (g *groups) note(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named[name] = struct{}{}
}

// settle creates the counters of each group at 0, because Prometheus sees no increase when a series
// begins at 1. It removes the counters of removed groups. named was read before v, so a group that
// v lacks was removed, and is not a new one.
func (g *groups) settle(named []string, v *view.View) {
	known := map[string]struct{}{}
	for _, name := range v.Known() {
		known[name] = struct{}{}
		g.heals.WithLabelValues(name, string(operation.Restart))
		g.heals.WithLabelValues(name, string(operation.Replace))
		g.ended.WithLabelValues(name, string(operation.Replace), string(operation.ActorHealing), string(operation.Done))
		g.quarantines.WithLabelValues(name)
		g.outages.WithLabelValues(name)
		for _, change := range []group.SetVerb{group.SetAdd, group.SetPromote, group.SetRemove} {
			g.memberships.WithLabelValues(name, string(change))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.named, known)
	for _, name := range named {
		if _, is := known[name]; is {
			continue
		}
		delete(g.named, name)
		for _, vec := range g.counted {
			vec.DeletePartialMatch(prometheus.Labels{"group": name})
		}
	}
}

func (g *groups) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.named))
}

// Describe sends nothing: the metrics depend on the leader.
func (g *groups) Describe(chan<- *prometheus.Desc) {}

// Collect reads all metrics.
func (g *groups) Collect(out chan<- prometheus.Metric) {
	named := g.all()
	v := g.read()
	if v != nil {
		g.settle(named, v)
	}
	for _, c := range g.counted {
		c.Collect(out)
	}
	if v == nil || !g.leads() {
		return
	}
	open := openOperations(v)
	for _, name := range v.Known() {
		if status, reported := v.Statuses[name]; reported {
			sendGauges(out, status.Value, name, open[name])
			sendNodes(out, name, v.SlotsOf(name))
		}
	}
}

// openOperations returns the Operations that have not ended, by group.
func openOperations(v *view.View) map[string][]operation.Operation {
	open := map[string][]operation.Operation{}
	for _, o := range v.Operations {
		if !o.Value.Phase.Ended() {
			open[o.Value.Group] = append(open[o.Value.Group], o.Value)
		}
	}
	return open
}

// sendGauges sends the gauges of one group.
func sendGauges(out chan<- prometheus.Metric, s group.Status, name string, open []operation.Operation) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{name}, labels...)...)
	}
	gauge(descWanted, float64(s.Replicas))
	gauge(descAvailable, float64(s.Available))
	gauge(descUpdated, float64(s.Updated))
	gauge(descPaused, truth(s.Paused))
	conditions := map[string]bool{} // a handwritten record may name a condition twice
	for _, c := range s.Conditions {
		conditions[c.Type] = c.Status
	}
	for condition, is := range conditions {
		gauge(descCondition, truth(is), condition)
	}
	for _, state := range rolloutStates {
		gauge(descRollout, truth(s.RolloutState == string(state)), string(state))
	}
	states, holds := map[group.SlotState]float64{}, map[string]float64{}
	for _, i := range s.Instances {
		states[i.State]++
		held := map[string]bool{} // one step may have two holds with one name
		for _, h := range i.Holds {
			held[h.Predicate] = true
		}
		for hold := range held {
			holds[hold]++
		}
	}
	for state, n := range states {
		gauge(descSlots, n, string(state))
	}
	for hold, n := range holds {
		gauge(descHolds, n, hold)
	}
	type step struct{ action, phase string }
	steps, oldest := map[step]float64{}, map[string]time.Time{}
	for _, op := range open {
		does := action(op.Kind)
		steps[step{does, string(op.Phase)}]++
		if before, other := oldest[does]; !other || op.Times.Created.Before(before) {
			oldest[does] = op.Times.Created
		}
	}
	for s, n := range steps {
		gauge(descOpen, n, s.action, s.phase)
	}
	for does, since := range oldest {
		gauge(descOldest, float64(since.UnixMilli())/1000, does)
	}
}

// sendNodes sends the number of Slots on each recorded node.
func sendNodes(out chan<- prometheus.Metric, name string, slots []group.SlotRecord) {
	on := map[string]float64{}
	for _, s := range slots {
		if s.Node != "" {
			on[s.Node]++
		}
	}
	for node, n := range on {
		out <- prometheus.MustNewConstMetric(descNodes, prometheus.GaugeValue, n, name, node)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
