package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/session"
)

var (
	// errClosed ends a Session after the close of its control connections.
	errClosed = errors.New("control connection closed")
	// errTwice ends a Session when its dialer opens a control connection again.
	errTwice = fmt.Errorf("%w: control connection opened twice", frame.ErrInvalid)
	// errMoved ends control connections that live on a better Session now.
	errMoved = errors.New("control moved to another session")
)

// Conns are the two control connections of a Session. Their RemoteAddr is an
// [identity.Addr] that names the authenticated Peer.
type Conns struct {
	// Dialer: this side opened the Session.
	Dialer bool
	// First carries gRPC with the dialer as client.
	First net.Conn
	// Second carries gRPC with the dialer as server.
	Second net.Conn
}

// Link is the owner of the control connections. It keeps a [Record], and calls there the
// methods of the same name.
type Link interface {
	// Begin reports whether a pair is to be opened, and Opened ends that.
	Begin(session uint64) bool
	Opened(session uint64)
	// Take reports whether the pair is in time: pairs are opened in parallel, and a pair
	// for a superseded Session may be ready last.
	Take(Taken) bool
	// Drop lets a Session go that waits for nothing else.
	Drop(*session.Session)
	Present(Taken) bool
}

// Channel opens and serves control connections for one Link. Constant.
type Channel struct {
	Link  Link
	Local identity.Addr
	// On is called in a goroutine of its own for each pair.
	On func(context.Context, *session.Session, Conns)
}

// Open opens both connections on the Session in use and runs them.
func (c *Channel) Open(ctx context.Context, s *session.Session) {
	if !c.Link.Begin(s.Number) {
		return
	}
	conns, err := c.open(s)
	c.Link.Opened(s.Number)
	if err != nil {
		s.Close(err)
		return
	}
	c.run(ctx, s, conns)
}

// open opens both connections, first things first.
func (c *Channel) open(s *session.Session) (Conns, error) {
	collect := Pairing{channel: c, session: s}
	var (
		conns    Conns
		complete bool
	)
	for _, kind := range []frame.Kind{frame.KindControl1, frame.KindControl2} {
		st, err := s.OpenControl()
		if err == nil {
			_, err = st.Write(frame.Header{Kind: kind}.Append(nil))
		}
		if err != nil {
			return Conns{}, fmt.Errorf("open %s stream: %w", kind, err)
		}
		if conns, complete, err = collect.add(kind, c.conn(s, st)); err != nil {
			return Conns{}, err
		}
	}
	if !complete {
		return Conns{}, errTwice
	}
	return conns, nil
}

// run hands a pair to On until the Session ends, ctx does, or the dialer has a pair on
// another Session.
func (c *Channel) run(ctx context.Context, s *session.Session, conns Conns) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	taken := Taken{Session: s.Number, Dialer: s.Dialer, pair: &pair{end: cancel}}
	first, second := conns.First.(*conn), conns.Second.(*conn)
	if !c.Link.Take(taken) {
		first.Reset()
		second.Reset()
		return
	}
	first.taken.Store(&taken)
	second.taken.Store(&taken)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.Done():
			cancel(s.Err())
		case <-stop:
		}
	})
	c.On(ctx, s, conns)
	close(stop)
	wg.Wait()
	c.Link.Drop(s)
}
