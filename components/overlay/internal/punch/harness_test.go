package punch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pion/stun/v2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		os.Exit(helper(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// reflector is a STUN server over TCP that records its requests.
type reflector struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// newReflector serves ln, one on loopback when nil, until the test ends.
func newReflector(t testing.TB, ln net.Listener) *reflector {
	t.Helper()
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	r := &reflector{ln: ln, conns: make(map[net.Conn]struct{})}
	r.wg.Go(r.serve)
	t.Cleanup(r.close)
	return r
}

func (r *reflector) addr() string { return r.ln.Addr().String() }

func (r *reflector) serve() {
	for {
		conn, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns[conn] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() {
			_ = answer(conn)
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
			r.mu.Lock()
			delete(r.conns, conn)
			r.mu.Unlock()
		})
	}
}

// answer answers one binding request.
func answer(conn net.Conn) error {
	req, err := readMessage(conn)
	if err != nil {
		return err
	}
	from := conn.RemoteAddr().(*net.TCPAddr)
	res, err := stun.Build(stun.NewTransactionIDSetter(req.TransactionID), stun.BindingSuccess,
		&stun.XORMappedAddress{IP: from.IP, Port: from.Port}, stun.Fingerprint)
	if err != nil {
		return err
	}
	_, err = conn.Write(res.Raw)
	return err
}

// open is how many connections are held to the reflector.
func (r *reflector) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

func (r *reflector) close() {
	r.ln.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// anywhere lets tests use loopback.
func anywhere(a netip.Addr, _ bool) error {
	if !a.IsValid() {
		return ErrCandidateForbidden
	}
	return nil
}

// gather makes a Local that the test closes.
func gather(t testing.TB, c Config) *Local {
	t.Helper()
	c.Allow = anywhere
	l, err := Gather(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// outcome is the result of one side's Connect.
type outcome struct {
	conn *Conn
	err  error
}

// connect starts one side. The connection is closed when the test ends.
func connect(ctx context.Context, t testing.TB, l *Local, remote []Candidate, controlling bool) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		c, err := l.Connect(ctx, remote, controlling, l.OneWay())
		out <- outcome{c, err}
	}()
	t.Cleanup(func() {
		select {
		case o := <-out:
			if o.conn != nil {
				o.conn.Close()
			}
		default:
		}
	})
	return out
}

// await waits for one side.
func await(t testing.TB, out <-chan outcome) *Conn {
	t.Helper()
	o := <-out
	if o.err != nil {
		t.Fatal(o.err)
	}
	t.Cleanup(func() { o.conn.Close() })
	return o.conn
}

// exchange sends text both ways, which shows that both have the same connection
// and that no byte of the protocol before it is left.
func exchange(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, d := range []struct {
		from, to net.Conn
		text     string
	}{{a, b, "from the controlling side"}, {b, a, "from the controlled side"}} {
		if _, err := d.from.Write([]byte(d.text)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len(d.text))
		if _, err := io.ReadFull(d.to, buf); err != nil {
			t.Fatal(err)
		}
		if string(buf) != d.text {
			t.Fatalf("got %q, want %q", buf, d.text)
		}
	}
}

// eventually waits for a condition that something else brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: did not come", what)
		}
	}
}

// wantErr checks that err is the expected one.
func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
