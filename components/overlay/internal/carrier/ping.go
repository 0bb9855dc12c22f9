package carrier

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/yamux"
)

func (s *session) Ping(ctx context.Context) (time.Duration, error) {
	rtt, err := PingMux(ctx, s.mux, s.spawn)
	switch {
	case err == nil:
		s.rtt.Store(int64(rtt))
		return rtt, nil
	case s.mux.IsClosed():
		err = s.closedError()
	}
	return 0, fmt.Errorf("ping: %w", err)
}

// PingMux measures one round trip of a multiplexer, as a control message would take it.
// yamux starts its clock only after its sender has returned from the connection, and the
// answer may arrive before that. yamux's ping has no context: spawn runs the ping as part
// of the Session, which ends it, and reports whether it started.
func PingMux(ctx context.Context, mux *yamux.Session, spawn func(func()) bool) (time.Duration, error) {
	type answer struct {
		rtt time.Duration
		err error
	}
	got := make(chan answer, 1)
	if !spawn(func() {
		begin := time.Now()
		_, err := mux.Ping()
		got <- answer{time.Since(begin), err}
	}) {
		return 0, yamux.ErrSessionShutdown
	}
	select {
	case a := <-got:
		return a.rtt, a.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
