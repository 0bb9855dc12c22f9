package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// Paces of the loop.
const (
	// resync is the approximate longest wait of a group for a change. It bounds the harm of a lost
	// wake-up, and finds platform changes that no event announced.
	resync = 5 * time.Minute
	// listCalm, listIdle and listBusy are the highest ages of the platform's list: in a settled
	// group, in an unsettled group, and with an open Operation. listIdle and listBusy are the
	// pauses between passes in the latter two cases.
	listCalm = time.Minute
	listIdle = 5 * time.Second
	listBusy = time.Second
	// calmest is the longest pause of an unsettled group.
	calmest = time.Minute
	// missedAfter is the age of a last report at which an agent has missed a heartbeat (sent at
	// least every 5 s). The loop then asks the platform for the state of the CVM. The report counts
	// until it is stale; the platform's answer that the CVM stopped counts at once.
	missedAfter = 7 * time.Second
	// listenEvery is the pace of the check for agents that fell silent.
	listenEvery = time.Second
	// burst collects changes that arrive together into one pass.
	burst = 20 * time.Millisecond
	// breath separates passes that follow each other at once.
	breath = 5 * time.Millisecond
	// errorWait follows a failed pass.
	errorWait = time.Second
	// refusedWait follows a lease that waiting alone does not obtain.
	refusedWait = 2 * time.Second
	// pastRetry paces the first contact with a store that is starting.
	pastRetry = 500 * time.Millisecond
)

// Reports gives the loop the agents' reports.
type Reports interface {
	Of(slot string) (reports.Received, bool)
	Subscribe() *reports.Subscription
	// Overdue returns the Slots whose last report is older than from, and not older than to.
	Overdue(from, to time.Duration) []string
	// Term is the highest Term that most agents have seen.
	Term() uint64
	HighWater() reports.HighWater
}

// Operator carries Operations out.
type Operator interface {
	// Step advances one open Operation as far as this view allows. again requests another pass at
	// once.
	Step(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen, op view.Rec[operation.Operation]) (again bool, err error)
	// EnsureRevision records the content of the spec's Revision.
	EnsureRevision(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen) (changed bool, err error)
	// Refused maps each refused Revision to the reason why no step may lead to it now. The caller
	// owns the map.
	Refused() map[string]string
	// TidyPolicies binds Slots to the CVMs that fill them. It withdraws Revisions that no Slot is
	// to run any more.
	TidyPolicies(ctx context.Context, lease store.Lease, v *view.View, groupName string) (changed bool, err error)
	// Took records when this coordinator took the Lease.
	Took(at time.Time)
}

// Tokens revokes the Consul tokens of removed Slots.
type Tokens interface {
	Retire(ctx context.Context, slot string, accessors ...string) error
	// Sweep deletes the policies that no token carries, and finds tokens that never expire.
	Sweep(ctx context.Context) (tokens.Swept, error)
	// StrayOperators deletes the tokens of operators whose accessors recorded does not return.
	StrayOperators(ctx context.Context, recorded func(context.Context) (map[string]bool, error)) (int, error)
}

// Duty is other work of the leader.
type Duty interface {
	// Lead works until the Lease or ctx ends.
	Lead(ctx context.Context, lease store.Lease)
}

// Members reads the nodes and tokens in Consul.
type Members interface {
	// Nodes are the names in the catalog and in gossip.
	Nodes(ctx context.Context) (map[string]tokens.Node, error)
	// SlotTokens are the ACL tokens of Slots, of every creator.
	SlotTokens(ctx context.Context) ([]tokens.Owned, error)
	// Revoke deletes tokens by accessor.
	Revoke(ctx context.Context, accessors ...string) error
}

// Metrics counts the events of the loop.
type Metrics interface {
	Leads(leads bool, term uint64)
	Pass(group, result string, seconds float64)
	// The calls Began, Ended, SlotWritten and StateWritten follow a successful write to the store.
	Began(op operation.Operation)
	Ended(op operation.Operation)
	SlotWritten(before, after group.SlotRecord)
	StateWritten(before, after group.InstanceStatus)
}

// Config of a Reconciler. Optional are Guard, Duties, RemoveNode, Panics, and Members together with
// LeaseNode. All other fields are required.
type Config struct {
	Cluster, Slot string
	Store         store.Store
	Views         *view.Watcher
	Listing       *observe.Platform
	Reports       Reports
	// Warmup is the time after this coordinator's start in which planning waits until most agents
	// have reported. Zero disables the wait.
	Warmup time.Duration
	// Watermark knows the highest state of the records.
	Watermark *watermark.Watermark
	Operator  Operator
	Tokens    Tokens
	// Validator judges stored specs before they come into force.
	Validator *specvalidate.Validator
	// Images are the OS images that this cluster accepts; adoptions are judged by them.
	Images policy.ImagePolicy
	// Guard revokes Slots from Boots that may not hold them any more. It runs in parallel to the
	// loop while this coordinator leads. Duties run in the same way.
	Guard  func(ctx context.Context, lease store.Lease)
	Duties []Duty
	// Members is compared with the admissions. Without it, tokens that belong to no admission live
	// until they expire. LeaseNode is the node that sessions are on.
	Members   Members
	LeaseNode string
	// RemoveNode removes the node of a Boot from the catalog, with the sessions on it. An empty
	// bootID means any Boot. A repeated call is harmless. Without RemoveNode, unexplained nodes and
	// the nodes of removed Slots stay.
	RemoveNode func(ctx context.Context, slot, bootID string) error
	Timing     rollout.Timing
	Now        func() time.Time
	Failpoint  func(name string)
	Log        *slog.Logger
	Metrics    Metrics
	// Panics confines a panic to the group or the duty in whose work it happened. Without it, a
	// panic ends the process.
	Panics *contain.Panics
}

// Reconciler runs the loop while its coordinator holds the Lease.
type Reconciler struct {
	cfg Config
	log *slog.Logger
	// book holds the virtual addresses in use.
	book book
	// line has the groups' places at the limits of the cluster.
	line line

	// entered has the values of the operators' records by the audit chain.
	entered entered

	// began has a monotonic reading, which no clock change affects.
	began time.Time
	// before is the previous leader and its last time. It is set before any group is led.
	before led

	mu            sync.Mutex
	auditFindings []auditFinding // guarded by mu; of the last audit
	halted        string         // guarded by mu; why no coordinator can lead, "" otherwise
	// silent holds, by group, why the last pass could not write the whole status, or "". It is
	// guarded by mu.
	silent map[string]string
	// leading is the present leadership, nil without one. steppedDown is the Term that StepDown ended
	// last, and standsDown when this coordinator may take the Lease again. All are guarded by mu.
	leading     *leadership
	steppedDown uint64
	standsDown  time.Time
}

// New makes a Reconciler.
func New(cfg Config) *Reconciler {
	return &Reconciler{cfg: cfg, log: cfg.Log, began: time.Now(), silent: map[string]string{},
		book: book{mu: newTurn()}, entered: entered{mu: newTurn()}, line: line{turn: newTurn(), mu: newTurn(), changed: make(chan struct{}, 1)}}
}

// Run waits for the Lease and leads while it lasts, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	last := ""
	complain := func(err error) {
		r.halt(err)
		if err == nil {
			return // another coordinator leads
		}
		// An unreachable store returns the same error at each attempt.
		if text := err.Error(); text != last && ctx.Err() == nil {
			r.log.Info("lease not available", "error", err)
			last = text
		}
	}
	r.endOwnPast(ctx, complain)
	for ctx.Err() == nil {
		r.leaveToOthers(ctx)
		lease, err := store.AcquireBlocking(ctx, r.cfg.Store, r.cfg.Slot, complain)
		if err != nil {
			// The ACL system of Consul is not up yet, or the Term went back.
			complain(err)
			wait(ctx, refusedWait)
			continue
		}
		last = ""
		r.halt(nil)
		if err := r.lead(ctx, lease); err != nil {
			wait(ctx, refusedWait) // give another coordinator the chance to lead first
		}
	}
	return nil
}

// endOwnPast ends the session that an earlier process of this Slot left behind when it died. A Slot
// has one process, so the session is unused. Waiting for its TTL would leave the cluster without a
// leader for that long.
func (r *Reconciler) endOwnPast(ctx context.Context, complain func(error)) {
	past, ok := r.cfg.Store.(interface {
		DestroyHolderSession(ctx context.Context, holder string) (bool, error)
	})
	for ok && ctx.Err() == nil {
		ended, err := past.DestroyHolderSession(ctx, r.cfg.Slot)
		if err == nil {
			if ended {
				r.log.Info("lease of this slot's last process ended")
			}
			return
		}
		complain(err)
		wait(ctx, pastRetry)
	}
}

// lead runs one loop per group until the Lease or ctx ends, and then releases the Lease. The error
// is the panic that made this coordinator release the Lease early.
func (r *Reconciler) lead(ctx context.Context, lease store.Lease) error { //nolint:contextcheck // work under the Lease ends with the Lease, and with ctx
	r.log.Info("lease taken", "term", lease.Term())
	r.cfg.Operator.Took(r.cfg.Now())
	r.cfg.Metrics.Leads(true, lease.Term())
	r.cfg.Listing.Forget("")

	r.before = r.lastLed(ctx, lease)
	under, cancel := context.WithCancel(lease.Context())
	stop := context.AfterFunc(ctx, cancel)
	defer r.leads(lease.Term(), cancel)()
	var raised sync.WaitGroup
	raised.Go(func() { r.keep(under, "term", func(ctx context.Context) { r.untilRaised(ctx, lease, cancel) }) })
	raised.Go(func() { r.keep(under, "state", func(ctx context.Context) { r.keepGrowing(ctx, lease) }) })
	raised.Go(func() {
		<-under.Done()
		r.cfg.Metrics.Leads(false, lease.Term()) // work that still winds up does not lead
	})
	crash := r.runAll(under, lease) //nolint:contextcheck // work under the Lease ends with the Lease, and with ctx
	stop()
	cancel()
	raised.Wait()

	release, done := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer done()
	if err := lease.Release(release); err != nil {
		r.log.Warn("lease not given up; it expires", "term", lease.Term(), "error", err)
	}
	cause := context.Cause(lease.Context()) //nolint:contextcheck // why the Lease ended
	r.log.Info("lease ended", "term", lease.Term(), "error", cause)
	return crash
}

// runAll runs the groups' loops and the other duties until ctx ends. If the loop that starts the
// groups panics, this coordinator releases the Lease. The next leader, perhaps this coordinator
// again, rebuilds the loop from the records.
func (r *Reconciler) runAll(ctx context.Context, lease store.Lease) error {
	var duties sync.WaitGroup
	defer duties.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, duty := range r.cfg.Duties {
		duties.Go(func() { r.keep(ctx, "duty", func(ctx context.Context) { duty.Lead(ctx, lease) }) })
	}
	return r.cfg.Panics.Do("groups", func() error {
		r.runGroups(ctx, lease)
		return nil
	})
}

// keep runs work that concerns all groups until the work or ctx ends. After a panic the work starts
// again from its beginning.
func (r *Reconciler) keep(ctx context.Context, part string, work func(context.Context)) {
	_ = r.cfg.Panics.Keep(ctx, part, func(ctx context.Context) error { // there is no other error
		work(ctx)
		return nil
	})
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
