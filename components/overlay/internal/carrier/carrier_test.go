package carrier

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/frame"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair makes both ends of a Session over loopback, and gives their sockets.
func pair(t *testing.T) (dialer, acceptor *session, sockets [2]net.Conn) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	accepted := make(chan Session, 1)
	go func() {
		defer close(accepted)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		sockets[1] = conn
		s, err := Server(ctx, tls.Server(Metered(conn), &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}), log)
		if err == nil {
			accepted <- s
		}
	}()
	sockets[0], err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Client(ctx, tls.Client(Metered(sockets[0]), &tls.Config{InsecureSkipVerify: true}), log)
	if err != nil {
		t.Fatal(err)
	}
	a, ok := <-accepted
	if !ok {
		t.Fatal("no session at the acceptor")
	}
	t.Cleanup(func() {
		for _, s := range []Session{d, a} {
			s.Close(errors.New("test is over"))
			s.Wait()
		}
	})
	return d.(*session), a.(*session), sockets
}

// stream opens one stream and gives both of its ends.
func (s *session) stream(t *testing.T, far *session) (Stream, Stream) {
	t.Helper()
	near, err := s.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	other, err := far.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []Stream{near, other} {
		_ = st.SetDeadline(time.Now().Add(10 * time.Second))
	}
	return near, other
}

// settled waits until yamux knows no stream but the carrier's own two.
func settled(t *testing.T, sessions ...*session) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, s := range sessions {
		for s.mux.NumStreams() != 2 || s.known() != 0 {
			select {
			case <-tick.C:
			case <-deadline.C:
				t.Fatalf("dialer %v: %d streams in yamux, %d known; want 2 and 0", s.dialer, s.mux.NumStreams(), s.known())
			}
		}
	}
}

func (s *session) known() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

func TestCleanEndFreesTheStream(t *testing.T) {
	d, a, _ := pair(t)
	for _, side := range [][2]*session{{d, a}, {a, d}} {
		near, far := side[0].stream(t, side[1])
		if _, err := near.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := near.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(far); err != nil || string(b) != "x" {
			t.Fatalf("got %q, error %v", b, err)
		}
		if err := far.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(near); err != nil || len(b) != 0 {
			t.Fatalf("got %q, error %v", b, err)
		}
		near.Reset() // changes nothing any more
	}
	settled(t, d, a)
}

func TestResetReachesBlockedCalls(t *testing.T) {
	d, a, _ := pair(t)
	near, far := d.stream(t, a)
	ends := make(chan error, 4)
	junk := make([]byte, 1<<20)
	for _, st := range []Stream{near, far} {
		go func() {
			for {
				if _, err := st.Write(junk); err != nil {
					ends <- err
					return
				}
			}
		}()
	}
	other, far2 := d.stream(t, a)
	for _, st := range []Stream{other, far2} {
		go func() {
			_, err := st.Read(make([]byte, 1))
			ends <- err
		}()
	}
	far.Reset()
	other.Reset()
	for range 4 {
		if err := <-ends; !errors.Is(err, ErrReset) {
			t.Errorf("blocked call ended with %v, want %v", err, ErrReset)
		}
	}
	// Each side releases the stream, whichever side began.
	near.Reset()
	far2.Reset()
	settled(t, d, a)
}

// Streams are opened, written and reset from either side in every order, also
// before they are accepted. None may stay behind, none may end cleanly.
func TestResetsFreeEverything(t *testing.T) {
	d, a, _ := pair(t)
	var accepting, working sync.WaitGroup
	for _, s := range []*session{d, a} {
		accepting.Go(func() {
			for {
				st, err := s.AcceptStream()
				if err != nil {
					return
				}
				working.Go(func() {
					b := make([]byte, 1)
					_, err := st.Read(b)
					if errors.Is(err, io.EOF) {
						t.Error("a reset stream ended cleanly")
					}
					if err == nil && b[0]%2 == 0 {
						_, err = io.Copy(io.Discard, st)
						if err == nil {
							t.Error("a reset stream ended cleanly")
						}
					}
					st.Reset()
				})
			}
		})
	}
	var opening sync.WaitGroup
	for _, s := range []*session{d, a} {
		for worker := range 4 {
			opening.Go(func() {
				for i := range 100 {
					st, err := s.OpenStream()
					if err != nil {
						t.Errorf("open: %v", err)
						return
					}
					if i%3 != 0 {
						_, _ = st.Write(bytes.Repeat([]byte{byte(worker + i)}, 1+i))
					}
					st.Reset()
				}
			})
		}
	}
	opening.Wait()
	settled(t, d, a)
	d.Close(errors.New("done"))
	accepting.Wait()
	working.Wait()
}

func TestDeathIsNoCleanEnd(t *testing.T) {
	d, a, sockets := pair(t)
	near, far := d.stream(t, a)
	_ = sockets[1].(*net.TCPConn).SetLinger(0)
	sockets[1].Close()
	for _, st := range []Stream{near, far} {
		_, err := st.Read(make([]byte, 1))
		if !errors.Is(err, ErrClosed) || errors.Is(err, io.EOF) {
			t.Errorf("read on a dead session: %v, want %v and no io.EOF", err, ErrClosed)
		}
	}
	<-d.Done()
	if err := d.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("the session's error is %v", err)
	}
	if _, err := d.OpenStream(); !errors.Is(err, ErrClosed) {
		t.Errorf("open on a dead session: %v", err)
	}
}

func TestDatagramsBothWays(t *testing.T) {
	d, a, _ := pair(t)
	for _, side := range [][2]*session{{d, a}, {a, d}} {
		for _, size := range []int{4, 1400, frame.MaxDatagram} {
			msg := bytes.Repeat([]byte{7}, size)
			side[0].SendDatagram(msg)
			got, err := side[1].ReceiveDatagram(make([]byte, frame.MaxDatagram))
			if err != nil || !bytes.Equal(got, msg) {
				t.Errorf("datagram of %d bytes: got %d, error %v", size, len(got), err)
			}
		}
	}
}
