package admission

import (
	"hash/fnv"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// step is what a coordinator does about the lease of one Boot.
type step int

const (
	// leave it: nothing is written.
	leave step = iota
	// take it, also from another session.
	take
	// offer it: the keeper does not hear the Boot, another coordinator may.
	offer
	// giveUp: nobody took what was offered.
	giveUp
)

// outlook is what one coordinator knows of the lease of a Slot's Boot when it decides.
type outlook struct {
	// boot is the one on record, held its Slot's lease.
	boot string
	held view.Boot
	// self is this coordinator, session its own; "": it has none.
	self, session string
	// live: the Boot is heard here. silent is for how long it was not.
	live   bool
	silent time.Duration
	// stood is for how long the lease is seen here as it is.
	stood time.Duration
	// rank is how many other coordinators go before this one in taking the lease.
	rank int
	ttl  time.Duration
}

const (
	// offerShare of the TTL is how long a Boot is silent when its lease is offered,
	// answerShare how long the others have to take it.
	offerShare  = 2
	answerShare = 4
	// rankShare of the TTL lies between two coordinators that may take a lease, so that
	// they do not all try at once.
	rankShare = 20
)

// judge decides. Whoever keeps a lease and hears its Boot writes nothing, and nobody else
// does: two coordinators that both hear it never take it from each other.
func judge(o outlook) step {
	switch {
	case o.boot == "", o.held.Held() && o.held.BootID != o.boot:
		return leave // of another Boot, by a record that is not seen here yet
	case o.held.EndedBy(o.boot):
		return leave // it said farewell, whatever is still heard of it
	case o.held.Held() && o.held.Session == o.session:
		return o.judgeOwn()
	case !o.live:
		return leave
	case o.held.Held() && o.held.State != store.LeaseOffered && o.held.By != o.self:
		return leave // another one keeps it, and hears the Boot as far as anybody knows
	case o.held.Held() && o.held.By == o.self, o.stood >= time.Duration(o.rank)*o.ttl/rankShare:
		// By self with another session: what this coordinator held before it began anew.
		return take
	}
	return leave
}

func (o outlook) judgeOwn() step {
	offered := o.held.State == store.LeaseOffered
	switch {
	case o.live && offered:
		return take
	case o.live:
		return leave
	case !offered && o.silent >= o.ttl/offerShare:
		return offer
	case offered && o.silent >= o.ttl && o.stood >= o.ttl/answerShare:
		return giveUp
	}
	return leave
}

// rank is the place of self among the coordinators that may take the lease of slot. Each
// Slot has an order of its own, so that a dead one's leases go to all alike.
func rank(slot, self string, all []string) int {
	own, before := weight(slot, self), 0
	for _, other := range all {
		if w := weight(slot, other); other != self && (w < own || w == own && other < self) {
			before++
		}
	}
	return before
}

func weight(slot, coordinator string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(slot + " " + coordinator))
	return h.Sum64()
}
