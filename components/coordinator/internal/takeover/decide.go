package takeover

import "time"

const (
	// Lasting is how long a leader's server must be given up. Gossip has got no answer from
	// it for 4 s by then at least; together that is more than the 7 s for which a holder
	// trusts its Lease without a renewal.
	Lasting = 4 * time.Second
	// lookEvery is how often it is looked, gap how far two looks may be apart to be of one
	// observation: whoever was stopped in between has old news.
	lookEvery = 500 * time.Millisecond
	gap       = 2 * time.Second
)

// Look is what one look at the leader told.
type Look struct {
	// Leader and Term name the Lease; "": nobody leads, or this coordinator does.
	Leader string
	Term   uint64
	// Failed: gossip gave the leader's server up. What is not known is not failed.
	Failed bool
	// LeadsRaft: the leader's server is the one that Consul's servers follow, so that it is
	// there after all. Elects: they follow none, or it is not known which; nothing can be
	// ended then, and nothing speaks for the leader either.
	LeadsRaft, Elects bool
}

// watch is what the looks so far told. The zero one knows nothing.
type watch struct {
	of    Look
	since time.Time // of is failed since then; zero: it is not
	last  time.Time
}

// next takes a look and tells whether the Lease is to be ended now.
func (w *watch) next(l Look, now time.Time) (end bool) {
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
