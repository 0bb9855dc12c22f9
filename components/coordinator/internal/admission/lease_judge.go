package admission

import (
	"hash/fnv"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// step is the action of a coordinator on the lease of one Boot.
type step int

const (
	// leave the lease unchanged.
	leave step = iota
	// take the lease, also from another session.
	take
	// offer the lease: the keeper receives no reports of the Boot, and another coordinator may.
	offer
	// giveUp frees an offered lease that no coordinator took.
	giveUp
)

// outlook is the knowledge of one coordinator about the lease of a Slot's Boot.
type outlook struct {
	// boot is the Boot on record, and held the lease of its Slot.
	boot  string
	lease view.Boot
	// self is this coordinator, and session its session; "": it has none.
	self, session string
	// live: this coordinator receives the Boot's reports. silent is how long it has received none.
	live   bool
	silent time.Duration
	// stood is how long this coordinator has seen the lease unchanged.
	stood time.Duration
	// rank is the number of coordinators that take the lease before this one.
	rank int
	ttl  time.Duration
}

const (
	// The lease of a Boot is offered after a silence of TTL/offerShare. The other coordinators have
	// TTL/answerShare to take it.
	offerShare  = 2
	answerShare = 4
	// TTL/rankShare lies between two coordinators that may take a lease, so that they do not all
	// try at once.
	rankShare = 20
)

// judge decides about the lease. While the keeper receives the Boot's reports, no coordinator
// writes: two coordinators that both receive them never take the lease from each other.
func judge(o outlook) step {
	switch {
	case o.boot == "", o.lease.Leased() && o.lease.BootID != o.boot:
		return leave // the lease belongs to another Boot, whose record is not in the View yet
	case o.lease.EndedBy(o.boot):
		return leave // the Boot said farewell, so late reports do not count
	case o.lease.Leased() && o.lease.Session == o.session:
		return o.judgeOwn()
	case !o.live:
		return leave
	case o.lease.Leased() && o.lease.State != store.LeaseOffered && o.lease.By != o.self:
		return leave // another coordinator keeps it, and presumably receives the Boot's reports
	case o.lease.Leased() && o.lease.By == o.self, o.stood >= time.Duration(o.rank)*o.ttl/rankShare:
		// By self with another session: this process kept the lease before its restart.
		return take
	}
	return leave
}

func (o outlook) judgeOwn() step {
	offered := o.lease.State == store.LeaseOffered
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

// rank returns the position of self among the coordinators that may take the lease of slot. The
// order differs per Slot, so that the leases of a dead coordinator spread evenly.
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
