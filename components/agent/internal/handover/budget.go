package handover

import (
	"strings"
	"time"
)

const (
	// tries is how many times its limit all tries of one Operation may pause a route in all: a
	// member whose hand-over fails again and again must not keep callers waiting with it.
	tries = 2
	// rememberSpent is how long the budget remembers the pause time of an Operation after its last
	// pause.
	rememberSpent = time.Hour
)

// budget counts for how long each Operation has paused one route. The zero value is of use.
type budget struct{ by map[string]share }

// share is the pause time of one Operation.
type share struct {
	spent time.Duration
	last  time.Time
}

// spent returns how long the Operation of try has paused the route.
func (b *budget) spent(try string) time.Duration { return b.by[operationOf(try)].spent }

// spend adds the pause time of one try to the budget of its Operation.
func (b *budget) spend(now time.Time, try string, paused time.Duration) {
	if b.by == nil {
		b.by = map[string]share{}
	}
	for of, one := range b.by {
		if now.Sub(one.last) >= rememberSpent {
			delete(b.by, of)
		}
	}
	of := operationOf(try)
	b.by[of] = share{b.by[of].spent + paused, now}
	dropOldest(b.by, func(s share) time.Time { return s.last })
}

// operationOf is the Operation of a try, whose name is <operation>/<try>.
func operationOf(try string) string {
	if i := strings.LastIndexByte(try, '/'); i >= 0 {
		return try[:i]
	}
	return try
}
