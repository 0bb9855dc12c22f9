package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/core/group"
)

// patroni drives PostgreSQL under Patroni 3.x and 4.x through its REST API.
// Members are named as their Slots. Patroni's voters are its DCS's, so the
// member itself takes part in no quorum.
type patroni struct {
	self   string
	vip    func(string) (netip.Addr, bool)
	at     netip.Addr
	port   uint16
	scope  string
	maxLag int64
	user   string
	secret string
	client *http.Client
	tls    bool
	// settles is how long a drain waits for PostgreSQL: drainLimit.
	settles time.Duration
	// good is the index into bases() that answered last.
	good atomic.Int32

	mu     sync.Mutex
	seen   seenCluster // guarded by mu
	failed string      // guarded by mu; the state of the last failed start, until PostgreSQL runs
	major  string      // guarded by mu; the leader's major version of PostgreSQL, the last that it reported
	// last is the last cluster view and the own timeline then, however old.
	last         patroniCluster // guarded by mu
	lastTimeline uint64         // guarded by mu
}

// seenCluster is the last cluster view, with the members' own reports at the time of the read.
type seenCluster struct {
	cluster    patroniCluster
	at         time.Time
	me, leader identity
}

// identity is the part of a report that changes with leadership and catch-up.
type identity struct {
	state, role, replication string
	timeline                 uint64
	paused                   bool
}

func (s patroniStatus) identity() identity {
	return identity{s.State, s.Role, s.ReplicationState, s.Timeline, s.Pause}
}

// clusterFor is how long a cluster view replaces a fresh read while no member reports a change:
// each read makes Patroni read Consul.
const clusterFor = 5 * time.Second

var _ Driver = (*patroni)(nil)

const (
	// observeBudget keeps an Observe under a second even when a Peer hangs.
	observeBudget = 900 * time.Millisecond
	// clusterBudget leaves time to ask the leader when Patroni's store is slow.
	clusterBudget = 600 * time.Millisecond
	// slowAfter is when the rest is asked of a Patroni that has not reported its state.
	slowAfter = 300 * time.Millisecond
)

func newPatroni(cfg Config, settings group.SettingValues) (*patroni, error) {
	config, err := clientTLS(settings)
	if err != nil {
		return nil, err
	}
	return &patroni{
		self: cfg.Self, vip: cfg.VIP, at: cfg.Local, port: settings.Port("port"), maxLag: settings.Bytes("max_lag_bytes"),
		scope: settings["scope"], user: settings["username"], secret: settings["password_file"],
		client: newRESTClient(config), tls: config != nil, settles: drainLimit,
	}, nil
}

// Observe asks the own member for its state and the cluster view, and the leader for its list of
// streaming replicas: only that list, with positions read from both sides now, proves that a
// replica has caught up. Patroni's own lag figures are up to loop_wait old. A follower's cluster
// view may be up to clusterFor old in a steady state; Observe always asks the own member and the
// leader, and a leader always checks that it has the lock.
//
// One missing answer must make neither this member nor its leader look dead: the state waits for
// PostgreSQL, the cluster view for Patroni's store, and the readiness of a leader for neither.
func (p *patroni) Observe(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	p.mu.Lock()
	seen := p.seen
	p.mu.Unlock()
	if time.Since(seen.at) >= clusterFor {
		seen = seenCluster{}
	}
	readiness := p.askReadiness(ctx)
	inTime, stop := context.WithTimeout(ctx, clusterBudget)
	defer stop()
	read := p.readBeside(inTime, !seen.at.IsZero())
	asked := time.Now()
	var me patroniStatus
	if err := p.local(ctx, "/patroni", &me); err != nil {
		cluster, clusterErr := read()
		return p.unseen(err, cluster, clusterErr, readiness()), nil
	}
	v, mine := p.own(me)
	if !mine {
		return v, nil
	}
	if !seen.at.IsZero() && me.identity() == seen.me {
		leader, err := p.leaderOf(ctx, seen.cluster, me)
		if err == nil && leader.identity() == seen.leader {
			p.judge(&v, me, leader, nil, seen.cluster)
			if v.steady() {
				return v, nil
			}
			v, _ = p.own(me)
		}
	}
	p.see(seenCluster{})
	cluster, clusterErr := read()
	if clusterErr != nil {
		return p.withoutCluster(ctx, v, me, clusterErr), nil
	}
	p.keep(cluster, me)
	leader, leaderErr := p.leaderOf(ctx, cluster, me)
	p.judge(&v, me, leader, leaderErr, cluster)
	if v.steady() && v.Role == RoleFollower && leaderErr == nil && leader.primary() {
		p.see(seenCluster{cluster, asked, me.identity(), leader.identity()})
	}
	return v, nil
}

func (p *patroni) see(s seenCluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = s
}

// steady: the view is complete and no change is in progress.
func (v View) steady() bool {
	return v.Ready && len(v.Busy) == 0 && v.MayDisrupt && (v.CaughtUp == nil || *v.CaughtUp)
}

// own begins the View from the answer at the own address; mine is false if another member answered.
func (p *patroni) own(me patroniStatus) (v View, mine bool) {
	v = View{Role: RoleUnknown, Liveness: LivenessAlive, Version: me.Patroni.Version, DataFormat: me.major(), Epoch: me.Timeline, Fault: me.fault()}
	p.noteStart(me.State)
	switch {
	case p.scope != "" && me.Patroni.Scope != p.scope:
		v.Message = fmt.Sprintf("Patroni serves scope %q, not %q", me.Patroni.Scope, p.scope)
	case me.Patroni.Name != "" && me.Patroni.Name != p.self:
		v.Message = fmt.Sprintf("Patroni's member is named %q; it must be named as the slot, %q", me.Patroni.Name, p.self)
	}
	v.MayDisruptReason = v.Message
	return v, v.Message == ""
}

// leaderOf asks the leader about itself.
func (p *patroni) leaderOf(ctx context.Context, cluster patroniCluster, me patroniStatus) (leader patroniStatus, err error) {
	switch name := cluster.leader(); name {
	case p.self:
		return me, nil
	case "":
		return leader, errors.New("the cluster has no leader")
	default:
		err = p.remote(ctx, name, &leader)
		return leader, err
	}
}

// judge fills role, readiness, catch-up and may-disrupt. leaderErr is the reason if leader is not
// known.
func (p *patroni) judge(v *View, me, leader patroniStatus, leaderErr error, cluster patroniCluster) {
	mine, _ := cluster.member(p.self)
	v.Leader = cluster.leader()
	v.Busy = busy(p.self, me, cluster)
	switch {
	case cluster.standsBy():
		v.Message = standbyCluster
	case me.primary() && v.Leader == p.self:
		v.Role = RoleLeader
		v.Ready = me.State == "running"
		v.CaughtUp, v.LagBytes, v.Followers = ptr(true), ptr(int64(0)), me.streaming(cluster)
		if !v.Ready {
			v.Message = p.notRunning(me, leader)
		}
	case me.primary():
		v.Message = "PostgreSQL is primary without the leader lock"
	case me.Role == "replica":
		v.Role = RoleFollower
		if mine.nofailover() {
			v.Role = RoleLearner
		}
		p.judgeReplica(v, me, leader, leaderErr, cluster.source(mine))
	default:
		v.Message = p.notRunning(me, leader)
	}
	v.MayDisruptReason = p.refusal(*v, me, cluster)
	v.MayDisrupt = v.MayDisruptReason == ""
}

// judgeReplica judges a replica that replicates from source, or from the leader where that is empty.
func (p *patroni) judgeReplica(v *View, me, leader patroniStatus, leaderErr error, source string) {
	running := me.State == "running" || me.State == "streaming"
	switch {
	case !running:
		v.Message = p.notRunning(me, leader)
		v.CaughtUp = ptr(false)
		return
	case leaderErr != nil:
		v.Ready = me.ReplicationState == "streaming"
		v.Message = fmt.Sprintf("catch-up is not known: leader's Patroni at port %d: %v", p.port, leaderErr)
		return
	case !leader.primary():
		v.Ready = me.ReplicationState == "streaming"
		v.Message = fmt.Sprintf("catch-up is not known: %s is not a running primary yet", v.Leader)
		return
	}
	streaming := leader.streams(p.self) || source != "" && me.ReplicationState == "streaming"
	v.Ready = streaming
	received := max(0, leader.XLog.Location-max(me.XLog.Received, me.XLog.Replayed))
	lag := max(0, leader.XLog.Location-me.XLog.Replayed)
	if v.Role == RoleLearner {
		// A member that never leads counts with the data that it has received, not replayed: it may
		// replay with a delay on purpose.
		lag = received
	}
	v.LagBytes = &lag
	caught := streaming && me.Timeline == leader.Timeline && lag <= p.maxLag && !me.XLog.Paused
	v.CaughtUp = &caught
	switch {
	case !streaming && source != "":
		v.Message = fmt.Sprintf("this replica does not stream from %s, which its tag replicatefrom names", source)
	case !streaming:
		v.Message = fmt.Sprintf("%s does not list this replica as streaming", v.Leader)
	case me.Timeline != leader.Timeline:
		v.Message = fmt.Sprintf("timeline %d, leader's is %d", me.Timeline, leader.Timeline)
	case me.XLog.Paused:
		v.Message = "replay is paused"
	case lag > p.maxLag && received <= p.maxLag:
		v.Message = fmt.Sprintf("replay is %d bytes behind the data that the replica has received: "+
			"a replica with recovery_min_apply_delay counts as caught up only with the tag nofailover", lag-received)
	case lag > p.maxLag:
		v.Message = fmt.Sprintf("replay is %d bytes behind", lag)
	}
}

// noteStart notes a failed start, which counts until PostgreSQL runs: it is started again and again.
func (p *patroni) noteStart(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case "start failed", "restart failed":
		p.failed = state
	case "starting", "restarting":
	default:
		p.failed = ""
	}
}

// notRunning is the message about a PostgreSQL that does not run; leader is the leader's report, if there is one.
func (p *patroni) notRunning(me, leader patroniStatus) string {
	p.mu.Lock()
	p.major = cmp.Or(leader.major(), p.major)
	p.mu.Unlock()
	return cmp.Or(p.failsToStart(), fmt.Sprintf("PostgreSQL is %s (%s)", me.State, me.Role))
}

// failsToStart is the message about a PostgreSQL that failed to start and did not run since; else empty. The own version is
// not known: Patroni learns a version from a server that runs.
func (p *patroni) failsToStart() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	data := ""
	switch {
	case p.failed == "":
		return ""
	case p.major != "":
		data = ", here " + p.major
	}
	return fmt.Sprintf("PostgreSQL does not start (%s): its log names the reason. A server opens data of its own major "+
		"version only%s: where this revision has another one, go back to the revision before, or restore a backup", p.failed, data)
}

// standbyCluster is why members of a standby cluster are refused.
const standbyCluster = "Patroni runs a standby cluster (standby_cluster in its dynamic configuration), which this driver " +
	"does not support: promote the cluster, or use the workload none"

// refusal returns why this member must not be stopped; empty when it may.
func (p *patroni) refusal(v View, me patroniStatus, cluster patroniCluster) string {
	switch {
	case cluster.standsBy():
		return standbyCluster
	case cluster.Pause || me.Pause:
		return "Patroni is paused: a stop would leave PostgreSQL without failover"
	case len(v.Busy) > 0:
		return "busy: " + v.Busy[0]
	case v.Leader == "":
		return "the cluster has no leader"
	}
	if v.Role == RoleLeader && cluster.anyMayLead(p.self) {
		if err := cluster.eligibleOther(p.self, me); err != nil {
			return "no streaming replica can take over: " + err.Error()
		}
	}
	return ""
}

// Drain waits until the own PostgreSQL is settled. Right after a switchover, Patroni stops
// PostgreSQL, perhaps rewinds it, and starts it as a replica: a stop in the middle would leave a
// half rewound data folder. Drain succeeds after the settle limit if Patroni refuses or omits an
// answer, or copies the leader's data or replays the log all the while. The step behind the drain
// may end the refusal or repair the start, and an interrupted copy or replay is repeated. A
// rewinding Patroni answers, so Drain waits for it.
func (p *patroni) Drain(all context.Context) error {
	ctx, cancel := context.WithTimeoutCause(all, p.settles, fmt.Errorf("PostgreSQL did not settle in %s", p.settles))
	defer cancel()
	var stopped time.Time
	spares := true // no look so far showed work that a stop would spoil
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		var me patroniStatus
		probe, cancel := context.WithTimeout(ctx, observeBudget)
		defer cancel()
		if err := p.local(probe, "/patroni", &me); err != nil {
			return isRefused(err), nil // nothing listens: nothing to settle
		}
		spares = spares && (me.State == "creating replica" || me.State == "starting")
		switch me.State {
		case "running", "streaming", "start failed", "restart failed", "crashed", "initdb failed", "custom bootstrap failed":
			return true, nil
		case "stopped", "stop failed":
			if stopped.IsZero() {
				stopped = time.Now()
			}
			return time.Since(stopped) > stoppedLimit, nil // it stays down
		}
		stopped = time.Time{}
		return false, nil
	})
	if spares && all.Err() == nil {
		return nil
	}
	return err
}

const (
	drainLimit = 60 * time.Second
	// stoppedLimit is longer than Patroni leaves a demoted member stopped.
	stoppedLimit = 10 * time.Second
)

func (p *patroni) CancelDrain(context.Context) error { return nil }
