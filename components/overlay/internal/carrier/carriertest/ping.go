package carriertest

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"cadre.dev/overlay/internal/carrier"
)

// pings asks for round trips from both sides while a stream is full of unread data, then
// with a finished context, then on a dead Session.
func pings(t *testing.T, pair Pair) {
	d, a := pair(t)
	near, far := side{Session: d}, side{Session: a}
	st, other := near.ends(t, far)
	var writing sync.WaitGroup
	writing.Go(func() {
		junk := make([]byte, 1<<20)
		for {
			if _, err := st.Write(junk); err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, s := range []carrier.Session{d, a} {
		for range 3 {
			if rtt, err := s.Ping(ctx); err != nil || rtt <= 0 {
				t.Errorf("ping took %v, error %v", rtt, err)
			}
		}
	}
	other.Reset()
	writing.Wait()
	over, end := context.WithCancel(ctx)
	end()
	if _, err := d.Ping(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a ping whose time was up ended with %v", err)
	}
	d.Close(io.EOF)
	for name, s := range map[string]carrier.Session{"closing side": d, "other side": a} {
		<-s.Done()
		_, err := s.Ping(ctx)
		wantIs(t, name+" pings", err, carrier.ErrClosed)
	}
}
