package datagram

import (
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	quic "github.com/apernet/quic-go"
)

// Bytes that no correct peer sends end the Session, on both sides and with a reason.
func TestGarbageEndsTheSession_OVL16(t *testing.T) {
	oneWay := func(b ...byte) func(*session) error {
		return func(s *session) error {
			pipe, err := s.raw.OpenUniStream()
			if err != nil {
				return err
			}
			_, err = pipe.Write(b)
			return errors.Join(err, pipe.Close())
		}
	}
	header := frame.Header{Kind: frame.KindUDP}.Append(nil)
	invalid := frame.ErrInvalid.Error()
	for name, c := range map[string]struct {
		send func(*session) error
		want string
	}{
		"datagram without ports":     {func(s *session) error { return s.raw.SendDatagram([]byte{1, 2, 3}) }, invalid},
		"empty datagram":             {func(s *session) error { return s.raw.SendDatagram(nil) }, invalid},
		"one-way stream of nothing":  {oneWay(9, 9, 9, 9), invalid},
		"one-way stream of a tcp":    {oneWay(frame.Header{Kind: frame.KindTCP, Port: 80}.Append(nil)...), invalid},
		"large datagram, too short":  {oneWay(append(header, 0, 3, 1, 2, 3)...), invalid},
		"large datagram, too long":   {oneWay(append(header, 0xff, 0xff)...), invalid},
		"large datagrams that end":   {oneWay(header...), "EOF"},
		"control of another version": {func(s *session) error { _, err := s.frames.writeFrame([]byte("GET / HTTP/1.1\r\n")); return err }, "control streams: "},
		"control stream closed":      {func(s *session) error { return s.frames.conn.(*quic.Stream).Close() }, "control streams: "},
		"control stream reset": {func(s *session) error {
			s.frames.conn.(*quic.Stream).CancelWrite(7)
			return nil
		}, "control streams: "},
	} {
		t.Run(name, func(t *testing.T) {
			hostile, s := pair(t, limits{})
			go func() { // as the owner of a Session does
				for _, err := s.ReceiveDatagram(nil); err == nil; _, err = s.ReceiveDatagram(nil) {
				}
			}()
			if err := c.send(hostile); err != nil {
				t.Fatal(err)
			}
			<-s.Done()
			s.Wait()
			if err := s.Err(); !errors.Is(err, carrier.ErrClosed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("session ended with %v, want %q", err, c.want)
			}
			<-hostile.Done()
			if err := hostile.Err(); !strings.Contains(err.Error(), c.want) {
				t.Errorf("the far side's error is %v", err) // or noticed the end without a message
			}
		})
	}
}

// A peer has one stream for large datagrams, and no more.
func TestOneWayStreamsAreFew_OVL17(t *testing.T) {
	d, _ := pair(t, limits{})
	for i := range maxOneWay + 1 {
		_, err := d.raw.OpenUniStream()
		var limit *quic.StreamLimitReachedError
		if errors.As(err, &limit) != (i == maxOneWay) {
			t.Errorf("one-way stream %d: %v", i+1, err)
		}
	}
}

// Resets that answer nothing and name nothing are answered or dropped.
func TestResetsOfUnknownControlStreams_OVL16(t *testing.T) {
	d, a := pair(t, limits{})
	for id := range uint32(200) {
		d.frames.send(makeHeader(yamuxWindow, yamuxRST, id, resetAsks))
		d.frames.send(makeHeader(yamuxWindow, yamuxRST, id, resetAnswers))
	}
	st, err := d.OpenControl()
	if err != nil {
		t.Fatal(err)
	}
	other, err := a.AcceptStream()
	if err != nil {
		t.Fatalf("the session did not take it: %v", err)
	}
	st.Reset()
	other.Reset()
}

// Packets of unauthenticated senders to the socket leave a Session alive.
func TestJunkPacketsChangeNothing_OVL13(t *testing.T) {
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{})
	d, far := connect(t, a, b, "b", b.addr())
	sender, err := net.DialUDP("udp4", nil, b.addr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	junk := make([]byte, 1300)
	for i := range 2000 {
		_, _ = rand.Read(junk)
		if _, err := sender.Write(junk[:1+i%len(junk)]); err != nil {
			t.Fatal(err)
		}
	}
	st, err := d.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	other, err := far.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	st.Reset()
	other.Reset()
}

// rawDial is a dialer that need not keep to the protocol.
func rawDial(t *testing.T, from, to *node, say []byte) *quic.Conn {
	t.Helper()
	raw, err := from.quic.Dial(testContext(t), to.addr(), strict(from.clientTLS("b")), from.limits.quicConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.CloseWithError(0, "") })
	if len(say) > 0 {
		st, err := raw.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write(say); err != nil {
			t.Fatal(err)
		}
	}
	return raw
}

func TestDialersWithoutAHelloAreDropped_OVL16(t *testing.T) {
	ca := newAuthority(t)
	a := newNode(t, ca, "a", limits{})
	b := newNode(t, ca, "b", limits{helloTime: 100 * time.Millisecond})
	for i, say := range [][]byte{nil, []byte("CD"), []byte("CDQ\x02"), []byte("GET / HTTP/1.1\r\n")} {
		raw := rawDial(t, a, b, say)
		<-raw.Context().Done()
		eventually(t, "failed hello to be counted and its place to be free", func() bool {
			b.limiter.mu.Lock()
			defer b.limiter.mu.Unlock()
			return b.Stats().FailedHellos == uint64(i+1) && b.limiter.taken == 0 && len(b.limiter.bySource) == 0
		})
	}
	connect(t, a, b, "b", b.addr())
}

func TestUnauthenticatedCallersShareTheirPlaces_OVL17(t *testing.T) {
	for name, c := range map[string]struct {
		limits   limits
		sameAddr bool
	}{
		"all":         {limits{handshakes: 3}, false},
		"one address": {limits{sourceHandshakes: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t)
			b := newNode(t, ca, "b", c.limits)
			dialer := newNode(t, ca, "a", limits{})
			dial := func() (*Conn, error) {
				if !c.sameAddr {
					dialer = newNode(t, ca, "a", limits{})
				}
				return dialer.Dial(testContext(t), b.addr(), dialer.clientTLS("b"))
			}
			for range 3 { // not accepted yet
				conn, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(nil)
			}
			if conn, err := dial(); err == nil {
				conn.Close(nil)
				t.Fatal("an unauthenticated caller above the limit was accepted")
			}
			if b.Stats().Refused == 0 {
				t.Error("the refusal was not counted")
			}
			other := newNode(t, ca, "a", limits{})
			if conn, err := other.Dial(testContext(t), b.addr(), other.clientTLS("b")); (err == nil) != c.sameAddr {
				t.Errorf("another address: %v", err)
			} else if err == nil {
				defer conn.Close(nil)
			}
			accepted, err := b.Accept(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			defer accepted.Close(nil)
			// The place is free a moment after Accept has returned.
			eventually(t, "a place after one was freed", func() bool {
				conn, err := dial()
				if err != nil {
					return false
				}
				conn.Close(nil)
				return true
			})
		})
	}
}
