// Package revoked remembers which Boots their coordinators have ended.
package revoked

import (
	"sync"
	"time"

	"cadre.dev/overlay/rendezvous/internal/member"
)

const (
	// memory is how long a Boot is remembered: longer than a certificate of it
	// can live.
	memory = 48 * time.Hour
	// most is how many are remembered for one cluster; then the oldest goes.
	most = 8192
)

// List is a set of Boots by cluster: a cluster ends its own and no others. The
// zero List is ready and safe for concurrent use.
type List struct {
	mu    sync.Mutex
	boots map[string]map[string]time.Time
}

// Add remembers boots of cluster.
func (l *List) Add(cluster string, boots []string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boots == nil {
		l.boots = map[string]map[string]time.Time{}
	}
	of := l.boots[cluster]
	if of == nil {
		of = map[string]time.Time{}
		l.boots[cluster] = of
	}
	for boot, at := range of {
		if now.Sub(at) > memory {
			delete(of, boot)
		}
	}
	for _, b := range boots {
		if _, ok := of[b]; !ok && len(of) >= most {
			dropOldest(of)
		}
		of[b] = now
	}
}

// Has reports whether m's Boot was ended.
func (l *List) Has(m member.Member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.boots[m.ID.Cluster][m.Boot]
	return ok
}

func dropOldest(of map[string]time.Time) {
	var oldest string
	for b, at := range of {
		if oldest == "" || at.Before(of[oldest]) {
			oldest = b
		}
	}
	delete(of, oldest)
}
