package datagram

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pings numbers the pings of one side. The zero value is ready.
type pings struct {
	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan struct{} // closed by the answer; guarded by mu
}

// ask gives the next ping; its answer closes answered, which may be nil.
func (p *pings) ask(answered chan struct{}) header {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	if answered != nil {
		if p.waiting == nil {
			p.waiting = make(map[uint32]chan struct{})
		}
		p.waiting[p.last] = answered
	}
	return makeHeader(yamuxPing, yamuxSYN, 0, p.last)
}

// answered handles the answer to a ping. It ignores an answer without a question.
func (p *pings) answered(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch, ok := p.waiting[id]; ok {
		close(ch)
		delete(p.waiting, id)
	}
}

// forget gives a ping up.
func (p *pings) forget(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, id)
}

// Ping goes over the first stream, which takes turns with all others.
func (s *session) Ping(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	answered := make(chan struct{})
	h := s.pings.ask(answered)
	defer s.pings.forget(h.length())
	err := s.ping(ctx, h, answered)
	if err != nil {
		return 0, fmt.Errorf("ping: %w", err)
	}
	return time.Since(begin), nil
}

func (s *session) ping(ctx context.Context, h header, answered <-chan struct{}) error {
	if !s.spawn(func() { s.frames.send(h) }) { // which may wait for longer than ctx
		return s.closedError(nil)
	}
	select {
	case <-answered:
		return nil
	case <-s.done:
		return s.closedError(nil)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
