package datagram

import (
	"errors"
	"os"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	quic "github.com/apernet/quic-go"
	"github.com/hashicorp/yamux"
)

// muxer has the multiplexer of control streams, from the first control stream of either
// side on. Most Sessions never need one, and an idle multiplexer costs each of them 8 KiB
// and three goroutines instead of one. Until it is needed, await alone reads the first
// stream, and answers pings.
type muxer struct {
	first  *quic.Stream
	frames *frames
	make   func() (*yamux.Session, error)
	// gone is closed when await has left the first stream to the multiplexer.
	gone chan struct{}

	mu   sync.Mutex
	mux  *yamux.Session // nil while there was no control stream; guarded by mu
	over bool           // the Session is; guarded by mu
}

// long past: a deadline that ends a read at once.
var longPast = time.Unix(1, 0)

// await reads the first stream until a multiplexer is needed: begin is called, in
// the background, when the far side begins one. It returns early, with the first
// stream's error, when that ends.
func (m *muxer) await(begin func()) error {
	defer close(m.gone)
	for {
		multiplexed, err := m.frames.idle()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil // get wants the stream
		case err != nil:
			return err
		case multiplexed:
			begin()
			return nil
		}
	}
}

// get gives the multiplexer, and makes it where there is none.
func (m *muxer) get() (*yamux.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mux != nil {
		return m.mux, nil
	}
	if m.over {
		return nil, carrier.ErrClosed
	}
	// Only one goroutine may read: the part of a frame that await has read stays in
	// frames.
	_ = m.first.SetReadDeadline(longPast)
	<-m.gone
	_ = m.first.SetReadDeadline(time.Time{})
	mux, err := m.make()
	m.mux = mux
	return mux, err
}

// peek gives the multiplexer if there is one.
func (m *muxer) peek() *yamux.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mux
}

// close ends the multiplexer for good, and waits until it has let go of the first
// stream and of every other.
func (m *muxer) close() {
	m.mu.Lock()
	mux := m.mux
	m.over = true
	m.mu.Unlock()
	if mux != nil {
		mux.Close()
	}
}
