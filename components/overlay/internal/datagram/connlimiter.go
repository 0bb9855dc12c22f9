package datagram

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	quic "github.com/apernet/quic-go"
)

// errNoPlace refuses a connection before anything is spent on it.
var errNoPlace = errors.New("no place for a handshake")

// connLimiter bounds the connections that the caller has not accepted yet: unauthenticated callers share
// them, and no single address can take them all (OVL-17).
type connLimiter struct {
	all, source int // constant
	refused     atomic.Uint64

	mu       sync.Mutex
	taken    int            // guarded by mu
	bySource map[string]int // guarded by mu
}

// place is held by one connection; leaving it twice is leaving it once.
type place struct{ leave func() }

type placeKey struct{}

// admit gives a place to a connection that begins, until it ends or [leave].
func (p *connLimiter) admit(ctx context.Context, who *quic.ClientInfo) (context.Context, error) {
	from := who.RemoteAddr.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.bySource[from] >= p.source {
		p.refused.Add(1)
		return nil, errNoPlace
	}
	p.taken++
	p.bySource[from]++
	pl := &place{leave: sync.OnceFunc(func() { p.free(from) })}
	context.AfterFunc(ctx, pl.leave)
	return context.WithValue(ctx, placeKey{}, pl), nil
}

// leave frees the place of the connection with this context.
func (p *connLimiter) leave(ctx context.Context) {
	if pl, ok := ctx.Value(placeKey{}).(*place); ok {
		pl.leave()
	}
}

func (p *connLimiter) free(from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.bySource[from]--; p.bySource[from] == 0 {
		delete(p.bySource, from)
	}
}
