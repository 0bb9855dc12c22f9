package carrier

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// frozen is a connection with a far machine that can stop without a sign.
type frozen struct {
	net.Conn
	once sync.Once
	ice  chan struct{} // closed when nothing passes any more
	gone chan struct{} // closed by Close
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	select {
	case <-f.ice:
		<-f.gone
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (f *frozen) Write(b []byte) (int, error) {
	select {
	case <-f.ice:
		<-f.gone
		return 0, net.ErrClosed
	default:
		return f.Conn.Write(b)
	}
}

func (f *frozen) Close() error {
	f.once.Do(func() { close(f.gone) })
	return f.Conn.Close()
}

// inChild runs this test alone in a process of its own, and reports whether this is that
// process. yamux keeps its timers in a pool of the process: a timer that was made in a
// bubble of synctest must not be used outside of it.
func inChild(t *testing.T) bool {
	t.Helper()
	const mark = "CARRIER_TEST_CHILD"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func TestSilentPeerIsNoticed(t *testing.T) {
	if !inChild(t) {
		return
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ice := make(chan struct{})
		near = &frozen{Conn: near, ice: ice, gone: make(chan struct{})}
		far = &frozen{Conn: far, ice: ice, gone: make(chan struct{})}
		log := slog.New(slog.DiscardHandler)
		accepted := make(chan Session, 1)
		go func() {
			defer close(accepted)
			s, err := Server(t.Context(), tls.Server(Metered(far), &tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			}), log)
			if err == nil {
				accepted <- s
			}
		}()
		d, err := Client(t.Context(), tls.Client(Metered(near), &tls.Config{InsecureSkipVerify: true}), log)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := <-accepted
		if !ok {
			t.Fatal("no session at the acceptor")
		}
		// An idle Session lives for as long as both ends do.
		select {
		case <-d.Done():
			t.Fatalf("idle session ended: %v", d.Err())
		case <-time.After(time.Hour):
		}
		// The dialer asks and the acceptor answers: 34 bytes each, every 2 s.
		for _, s := range []Session{d, a} {
			if out := s.Stats().BytesOut; out < 1800*34 || out > 1800*34*5/4 {
				t.Errorf("%d bytes were written in an idle hour", out)
			}
		}
		close(ice)
		begin := time.Now()
		for _, s := range []Session{d, a} {
			<-s.Done()
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("noticed after %v, want at most 10 s", took)
			}
			if err := s.Err(); !errors.Is(err, ErrClosed) {
				t.Errorf("session ended with %v", err)
			}
			s.Wait()
		}
	})
}
