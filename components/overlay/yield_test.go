package overlay

import (
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
)

// askRest asks for the end of the Session that it asks over.
var askRest = frame.AppendRest(frame.Header{Kind: frame.KindRest}.Append(nil), nil)

// ask opens a stream that begins so and gives the far side's answer.
func ask(s carrier.Session, begin []byte) error {
	st, err := s.OpenStream()
	if err != nil {
		return err
	}
	defer st.Reset()
	_ = st.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := st.Write(begin); err != nil {
		return err
	}
	return forward.ReadReply(st)
}

// yielded is a Session of a that b has promised to use no more, and a does not end.
func yielded(t *testing.T, a, b *testNode) (s carrier.Session) {
	t.Helper()
	eventually(t, "agreement to rest", func() bool {
		var err error
		s, _, err = a.linkTo(b).Used()
		return err == nil && ask(s, askRest) == nil
	})
	return s
}

// A Peer that asks for the end of a Session and then keeps it cannot delay a node's end.
func TestANodeEndsWhileAPeerKeepsAnEndedSession(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("web", "b", 2, onDemand(50*time.Millisecond))
	connect(a, b, nil, nil)
	s := yielded(t, a, b)
	b.stop()
	<-s.Done()
}

// A Session that the previous Boot keeps by the same trick does not reach the next Boot's
// ports.
func TestAKeptSessionStaysWithItsBoot(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("web", "b", 2, onDemand(50*time.Millisecond))
	ln, port := b.listen(t)
	serveEach(t, ln, echo)
	connect(a, b, tcpPort(port), nil)
	s := yielded(t, a, b)
	next := b.sees(a, nil, tcpPort(port))
	next.BootID = "another"
	b.SetPeers([]Peer{next})
	if err := ask(s, frame.Header{Kind: frame.KindTCP, Port: port}.Append(nil)); err == nil {
		t.Error("a port was reached over the session of the boot before")
	}
	<-s.Done()
}
