// Package revoked remembers which Boots their coordinators have ended.
package revoked

import (
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/member"
)

const (
	// memory is how long a Boot is remembered: longer than a certificate of it
	// can live.
	memory = 48 * time.Hour
	// most is how many are remembered for one cluster; then the oldest goes.
	most = 8192
	// most coordinators that are remembered for one Boot. With more, no coordinator can
	// take it back.
	mostNamed = 8
)

// List is a set of Boots by cluster: a cluster ends its own and no others. The
// zero List is ready and safe for concurrent use.
type List struct {
	mu    sync.Mutex
	boots map[string]map[string]*entry
}

type entry struct {
	at time.Time
	// by are the coordinators whose newest list has the Boot. The zero Member stands for
	// a coordinator that will not take it back.
	by []member.Member
}

// Replace makes boots the complete list of Boots that the coordinator by has ended. A
// Boot of its earlier list that is missing now is permitted again, unless another
// coordinator lists it too. A list as long as can be may have lost its oldest entries: it
// takes nothing back, then or later. A coordinator that has restarted takes nothing back
// either, since it may lack the knowledge of its earlier Boot.
func (l *List) Replace(by member.Member, boots []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boots == nil {
		l.boots = map[string]map[string]*entry{}
	}
	of := l.boots[by.ID.Cluster]
	if of == nil {
		of = map[string]*entry{}
		l.boots[by.ID.Cluster] = of
	}
	named := make(map[string]struct{}, len(boots))
	for _, b := range boots {
		named[b] = struct{}{}
	}
	for boot, e := range of {
		if _, still := named[boot]; !still {
			e.drop(by, len(boots) >= mailbox.MaxRevoked)
		}
		if now.Sub(e.at) > memory || len(e.by) == 0 {
			delete(of, boot)
		}
	}
	for _, b := range boots {
		e := of[b]
		if e == nil {
			if len(of) >= most {
				dropOldest(of)
			}
			e = &entry{}
			of[b] = e
		}
		e.at = now
		e.name(by)
	}
}

// Has reports whether m's Boot was ended.
func (l *List) Has(m member.Member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.boots[m.ID.Cluster][m.Boot]
	return ok
}

func (e *entry) name(by member.Member) {
	if slices.Contains(e.by, by) {
		return
	}
	if len(e.by) >= mostNamed {
		by = member.Member{}
		e.by = e.by[:0]
	}
	e.by = append(e.by, by)
}

// drop removes by's report, or only forgets its origin.
func (e *entry) drop(by member.Member, keep bool) {
	i := slices.Index(e.by, by)
	switch {
	case i < 0:
	case keep:
		e.by[i] = member.Member{}
	default:
		e.by = slices.Delete(e.by, i, i+1)
	}
}

func dropOldest(of map[string]*entry) {
	var oldest string
	for b, e := range of {
		if oldest == "" || e.at.Before(of[oldest].at) {
			oldest = b
		}
	}
	delete(of, oldest)
}
