package datagram

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// Ping asks the control multiplexer: its stream takes turns with all others.
func (s *session) Ping(ctx context.Context) (time.Duration, error) {
	rtt, err := carrier.PingMux(ctx, s.mux, s.spawn)
	switch {
	case err == nil:
		return rtt, nil
	case s.mux.IsClosed():
		err = s.closedError(nil)
	}
	return 0, fmt.Errorf("ping: %w", err)
}
