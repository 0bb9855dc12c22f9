package agent

import (
	"context"
	"sync"
	"time"

	"cadre.dev/agent/internal/envoy"
)

// looks shares each look at an Envoy's clusters among all who ask at about the same time. An
// answer has all clusters, whoever asks, up to megabytes of them; while a leader is waited for
// each route asks a hundred times a second. Set ask; safe for concurrent use.
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

// clusters are those that proxy's Envoy has, as told by a look that is under way or that began
// age ago at most. ctx ends the wait, not the look: others wait for it. Do not change them.
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

// serves reports whether who asks now need not look again. An Envoy that is slow is asked
// nothing more before it has answered.
func (o *look) serves(age time.Duration) bool {
	select {
	case <-o.over:
		return time.Since(o.began) <= age
	default:
		return true
	}
}
