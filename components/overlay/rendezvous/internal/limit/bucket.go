// Package limit holds token buckets: how much an identity may use, in requests
// or bytes.
package limit

import (
	"sync"
	"time"
)

// Rate is a token bucket's shape. The zero Rate allows nothing.
type Rate struct {
	// PerSecond tokens come back each second.
	PerSecond float64
	// Burst is how many can be saved.
	Burst float64
}

// Keyed is a set of buckets of one shape. It drops full buckets, and refuses new keys
// when too many are in use. Safe for concurrent use.
type Keyed[K comparable] struct {
	rate Rate
	most int

	mu      sync.Mutex
	buckets map[K]*bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

// NewKeyed makes a set for at most most keys at once.
func NewKeyed[K comparable](r Rate, most int) *Keyed[K] {
	return &Keyed[K]{rate: r, most: most, buckets: map[K]*bucket{}}
}

// Take takes n tokens of k's bucket, or none.
func (k *Keyed[K]) Take(key K, n float64, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.buckets[key]
	if b == nil {
		if len(k.buckets) >= k.most {
			k.sweepLocked(now)
		}
		if len(k.buckets) >= k.most {
			return false
		}
		b = &bucket{tokens: k.rate.Burst, at: now}
		k.buckets[key] = b
	}
	k.fill(b, now)
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

func (k *Keyed[K]) fill(b *bucket, now time.Time) {
	if d := now.Sub(b.at).Seconds(); d > 0 {
		b.tokens = min(k.rate.Burst, b.tokens+d*k.rate.PerSecond)
		b.at = now
	}
}

func (k *Keyed[K]) sweepLocked(now time.Time) {
	for key, b := range k.buckets {
		if k.fill(b, now); b.tokens >= k.rate.Burst {
			delete(k.buckets, key)
		}
	}
}
