package takeover

import "time"

const (
	// Lasting is how long gossip must report a leader's server as failed. By then the server has
	// not answered for at least 4 s more. The sum is above the 7 s for which a holder trusts its
	// Lease without a renewal.
	Lasting = 4 * time.Second
	// evaluateEvery is the interval of evaluations. gap is the maximum distance of two evaluations in
	// one observation: a process that was stopped in between has outdated ones.
	evaluateEvery = 500 * time.Millisecond
	gap           = 2 * time.Second
)

// Evaluation is one evaluation of the leader.
type Evaluation struct {
	// Leader and Term name the Lease; "": there is no leader, or this coordinator leads.
	Leader string
	Term   uint64
	// Failed: gossip reports the leader's server as failed. An unknown state is not failed.
	Failed bool
	// LeadsRaft: Consul's servers follow the leader's server, so it is alive. Elects: they follow
	// no server, or it is unknown which. Then no Lease can be ended, and the leader is not
	// confirmed either.
	LeadsRaft, Elects bool
}

// watch is the state of the evaluations so far. Its zero value is ready.
type watch struct {
	of    Evaluation
	since time.Time // since when of is failed; zero: it is not
	last  time.Time
}

// next adds an evaluation and reports whether to end the Lease now.
func (w *watch) next(l Evaluation, now time.Time) (end bool) {
	lost := l.Leader != "" && l.Failed && !l.LeadsRaft
	same := l.Leader == w.of.Leader && l.Term == w.of.Term && now.Sub(w.last) <= gap
	if !lost || !same {
		w.since = time.Time{}
	}
	if lost && w.since.IsZero() {
		w.since = now
	}
	w.of, w.last = l, now
	return lost && !l.Elects && now.Sub(w.since) >= Lasting
}
