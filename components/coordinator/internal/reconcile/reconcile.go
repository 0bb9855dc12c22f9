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
	// resync is about the longest that a group waits for a change: a lost wake-up is
	// harmless, and what changed on the platform behind everybody's back is found.
	resync = 5 * time.Minute
	// listCalm, listIdle and listBusy are how old the platform's list may be: while nothing
	// is the matter, while something is, and with an open Operation. The last two are also
	// how soon a group is looked at again then.
	listCalm = time.Minute
	listIdle = 5 * time.Second
	listBusy = time.Second
	// calmest is the longest pause of a group that something is the matter with.
	calmest = time.Minute
	// missedAfter is how long after its last report an agent missed a heartbeat, which comes every
	// 5 s at most: the platform is asked then what became of its CVM. Its report counts on, until
	// it is stale; the platform's word that the CVM stopped counts at once.
	missedAfter = 7 * time.Second
	// listenEvery is how often it is looked for agents that fell silent.
	listenEvery = time.Second
	// burst lets changes that come together be seen together.
	burst = 20 * time.Millisecond
	// breath separates passes that follow at once.
	breath = 5 * time.Millisecond
	// errorWait follows a pass that could not be done.
	errorWait = time.Second
	// refusedWait follows a lease that cannot be had by waiting alone.
	refusedWait = 2 * time.Second
	// pastRetry paces the first contact with a store that is starting.
	pastRetry = 500 * time.Millisecond
)

// Reports is what the loop needs of the agents' reports.
type Reports interface {
	Of(slot string) (reports.Received, bool)
	Subscribe() *reports.Subscription
	// Overdue are the Slots whose last report is older than from, and not older than to.
	Overdue(from, to time.Duration) []string
	// Term is the highest that most of the agents have seen.
	Term() uint64
	HighWater() reports.HighWater
}

// Operator carries Operations out.
type Operator interface {
	// Step moves one open Operation on as far as it goes without looking again;
	// again asks for another pass at once.
	Step(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen, op view.Rec[operation.Operation]) (again bool, err error)
	// EnsureRevision records the content of the spec's Revision.
	EnsureRevision(ctx context.Context, lease store.Lease, v *view.View, seen observe.Seen) (changed bool, err error)
	// Refused is, by Revision, why no step may lead to it now. The caller's own.
	Refused() map[string]string
	// TidyPolicies binds Slots to the CVMs that fill them and withdraws Revisions
	// that nobody is to run any more.
	TidyPolicies(ctx context.Context, lease store.Lease, v *view.View, groupName string) (changed bool, err error)
	// Took notes when the Lease was taken.
	Took(at time.Time)
}

// Tokens takes back what a Slot that is gone was given.
type Tokens interface {
	Retire(ctx context.Context, slot string, accessors ...string) error
	// Sweep deletes the policies that no token carries, and finds tokens that never end.
	Sweep(ctx context.Context) (tokens.Swept, error)
}

// Duty is other work of the leader.
type Duty interface {
	// Lead works until the Lease or ctx ends.
	Lead(ctx context.Context, lease store.Lease)
}

// Members is what Consul knows about who is in the cluster.
type Members interface {
	// Nodes are the names in the catalog and in gossip.
	Nodes(ctx context.Context) (map[string]tokens.Node, error)
	// SlotTokens are the ACL tokens of Slots, whoever made them.
	SlotTokens(ctx context.Context) ([]tokens.Owned, error)
	// Revoke deletes tokens by accessor.
	Revoke(ctx context.Context, accessors ...string) error
}

// Metrics counts what the loop does.
type Metrics interface {
	Leads(leads bool, term uint64)
	Pass(group, result string, seconds float64)
	// Began, Ended, SlotWritten and StateWritten are told once the store took what they tell.
	Began(op operation.Operation)
	Ended(op operation.Operation)
	SlotWritten(before, after group.SlotRecord)
	StateWritten(before, after group.InstanceStatus)
}

// Config of a Reconciler. All fields are required, but Guard, Duties, RemoveNode,
// Panics and Members with LeaseNode.
type Config struct {
	Cluster, Slot string
	Store         store.Store
	Views         *view.Watcher
	Listing       *observe.Platform
	Reports       Reports
	// Warmup is how long after this coordinator's start agents may need to be heard; until
	// then nothing is planned unless most of them are. Zero: it does not wait.
	Warmup time.Duration
	// Ratchet tells how far the records have come.
	Ratchet  *watermark.Watermark
	Operator Operator
	Tokens   Tokens
	// Vet judges stored specs before they come into force.
	Vet *specvalidate.Vet
	// Images are what this cluster takes; adoptions are judged by them.
	Images policy.ImagePolicy
	// Guard takes Slots away from Boots that may not hold them any more, beside the loop
	// and while this coordinator leads; Duties run as it does.
	Guard  func(ctx context.Context, lease store.Lease)
	Duties []Duty
	// Members is compared with the admissions; nil: it is not, and tokens that none names
	// live until they end. LeaseNode is the one that sessions are on.
	Members   Members
	LeaseNode string
	// RemoveNode takes the node of a Boot out of the catalog, with the sessions on it; boot
	// "": of any. It may be told again. nil: nodes that no admission explains, and those of Slots
	// that are gone for good, stay.
	RemoveNode func(ctx context.Context, slot, bootID string) error
	Timing     rollout.Timing
	Now        func() time.Time
	Failpoint  func(name string)
	Log        *slog.Logger
	Metrics    Metrics
	// Panics keep a panic to the group, or to the duty, in whose work it happened; nil: it ends
	// the process.
	Panics *contain.Panics
}

// Reconciler runs the loop on whichever coordinator holds the Lease.
type Reconciler struct {
	cfg Config
	log *slog.Logger
	// book is what is known of the virtual addresses.
	book book

	// began is by a clock that nobody sets.
	began time.Time
	// before is who led last, and until when; set before anything is led.
	before led

	mu        sync.Mutex
	strangers []stranger // guarded by mu; of the last audit
	halted    string     // guarded by mu; why nobody can lead, "" while somebody could
	// silent is why the last pass of a group could not tell everything, "" when it could;
	// guarded by mu.
	silent map[string]string
}

// New makes a Reconciler.
func New(cfg Config) *Reconciler {
	return &Reconciler{cfg: cfg, log: cfg.Log, began: time.Now(), silent: map[string]string{}}
}

// Run waits for the Lease and leads while it lasts, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	last := ""
	complain := func(err error) {
		r.halt(err)
		if err == nil {
			return // another one leads
		}
		// An unreachable store says the same thing at each try.
		if text := err.Error(); text != last && ctx.Err() == nil {
			r.log.Info("lease not available", "error", err)
			last = text
		}
	}
	r.endOwnPast(ctx, complain)
	for ctx.Err() == nil {
		lease, err := store.AcquireBlocking(ctx, r.cfg.Store, r.cfg.Slot, complain)
		if err != nil {
			// Denied before Consul's ACL system is up, or the Term went back.
			complain(err)
			wait(ctx, refusedWait)
			continue
		}
		last = ""
		r.halt(nil)
		if err := r.lead(ctx, lease); err != nil {
			wait(ctx, refusedWait) // another coordinator leads before this one does again
		}
	}
	return nil
}

// endOwnPast ends the session that an earlier process of this Slot left behind
// when it died: there is one process per Slot, so nobody uses it any more, and
// waiting for its TTL would leave the cluster without a leader for that long.
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

// lead runs one loop per group until the Lease or ctx ends, then gives it up. The error is the panic
// for which it gave the Lease up before.
func (r *Reconciler) lead(ctx context.Context, lease store.Lease) error { //nolint:contextcheck // what runs under the Lease dies with it; ctx ends it too
	r.log.Info("lease taken", "term", lease.Term())
	r.cfg.Operator.Took(r.cfg.Now())
	r.cfg.Metrics.Leads(true, lease.Term())
	r.cfg.Listing.Forget("")

	r.before = r.lastLed(ctx, lease)
	under, cancel := context.WithCancel(lease.Context())
	stop := context.AfterFunc(ctx, cancel)
	var raised sync.WaitGroup
	raised.Go(func() { r.keep(under, "term", func(ctx context.Context) { r.untilRaised(ctx, lease, cancel) }) })
	raised.Go(func() { r.keep(under, "state", func(ctx context.Context) { r.keepGrowing(ctx, lease) }) })
	raised.Go(func() {
		<-under.Done()
		r.cfg.Metrics.Leads(false, lease.Term()) // what still winds up does not lead
	})
	crash := r.runAll(under, lease) //nolint:contextcheck // what runs under the Lease dies with it; ctx ends it too
	stop()
	cancel()
	raised.Wait()

	release, done := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer done()
	if err := lease.Release(release); err != nil {
		r.log.Warn("lease not given up; it ends by itself", "term", lease.Term(), "error", err)
	}
	cause := context.Cause(lease.Context()) //nolint:contextcheck // why the Lease ended
	r.log.Info("lease ended", "term", lease.Term(), "error", cause)
	return crash
}

// runAll runs the groups' loops and the other duties until ctx ends. Where the loop that starts the
// groups panics, this coordinator gives the Lease up: the next leader, perhaps this one again,
// makes everything of the loop again from the records.
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

// keep runs work that concerns all groups until it ends or ctx does. After a panic it runs again
// from its beginning.
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
