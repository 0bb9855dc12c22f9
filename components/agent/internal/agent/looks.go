package agent

import (
	"context"
	"sync"
	"time"

	"cadre.dev/agent/internal/envoy"
)

// looks shares each look at an Envoy's clusters among all callers at about the same time. An answer
// has all clusters, up to megabytes of them; while a route waits for a leader, it asks a hundred
// times a second. Set ask; safe for concurrent use.
type looks struct {
	ask func(ctx context.Context, proxy string) ([]envoy.Cluster, error)

	mu   sync.Mutex
	last *look // guarded by mu; nil: none yet
}

// look is one, under way or over.
type look struct {
	proxy string
	began time.Time
	// over is closed when the rest is there.
	over     chan struct{}
	clusters []envoy.Cluster
	err      error
}

// clusters returns the clusters of proxy's Envoy, from a running look or from a look that began
// at most age ago. ctx ends the wait, not the look: other callers wait for it. Do not change them.
func (l *looks) clusters(ctx context.Context, proxy string, age time.Duration) ([]envoy.Cluster, error) {
	one := l.look(ctx, proxy, age)
	select {
	case <-one.over:
		return one.clusters, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *looks) look(ctx context.Context, proxy string, age time.Duration) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.last; one != nil && one.proxy == proxy && one.serves(age) {
		return one
	}
	one := &look{proxy: proxy, began: time.Now(), over: make(chan struct{})}
	l.last = one
	ctx = context.WithoutCancel(ctx)
	go func() { // ask has a bound of its own
		defer close(one.over)
		one.clusters, one.err = l.ask(ctx, proxy)
	}()
	return one
}

// serves reports whether a caller can use this look. A slow Envoy gets no further request before it
// has answered.
func (o *look) serves(age time.Duration) bool {
	select {
	case <-o.over:
		return time.Since(o.began) <= age
	default:
		return true
	}
}
