package consulproxy

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"cadre.dev/overlay"
)

// Coordinator is a candidate for requests.
type Coordinator struct {
	ID overlay.ID
	// Up reports that there is a Session with it.
	Up bool
}

// forgiveAfter is how long a coordinator that failed is tried after the others.
const forgiveAfter = 30 * time.Second

// Order returns the coordinators in the order in which the Slot self tries them: those with a
// Session first, and recently failed ones last. Among the failed ones, the oldest failure comes
// first. A hash of both names orders the rest, so that the members of a cluster spread over its
// coordinators, and over the successors when a coordinator is gone.
func Order(self string, all []Coordinator, failed map[overlay.ID]time.Time, now time.Time) []overlay.ID {
	type ranked struct {
		id     overlay.ID
		down   bool
		failed time.Time // zero: not lately
		hash   uint64
	}
	var list []ranked
	for _, c := range all {
		r := ranked{id: c.ID, down: !c.Up, hash: spread(self, c.ID.Slot)}
		if at, is := failed[c.ID]; is && now.Sub(at) < forgiveAfter {
			r.failed = at
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(
			compareBool(!a.failed.IsZero(), !b.failed.IsZero()),
			compareBool(a.down, b.down),
			a.failed.Compare(b.failed),
			cmp.Compare(a.hash, b.hash),
			cmp.Compare(a.id.Slot, b.id.Slot),
		)
	})
	out := make([]overlay.ID, 0, len(list))
	for _, r := range list {
		out = append(out, r.id)
	}
	return out
}

func spread(self, coordinator string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(self + "\x00" + coordinator))
	// Names that differ in their last letter differ in the lowest bits alone: mixed, or
	// all members would have one order.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
