package ice

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pion/turn/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testUser = "1:cluster/group/slot-0"
	testPass = "relay password"
)

// relayServer is a STUN and TURN server on loopback.
type relayServer struct {
	udp, tcp netip.AddrPort
	turn     *turn.Server
}

func (s relayServer) stunURL() string { return "stun:" + s.udp.String() }

func (s relayServer) server(transport string) Server {
	at := s.udp
	if transport == "tcp" {
		at = s.tcp
	}
	return Server{URL: fmt.Sprintf("turn:%s?transport=%s", at, transport), Username: testUser, Password: testPass}
}

func newRelayServer(t testing.TB) relayServer {
	t.Helper()
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	generator := &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"}
	s, err := turn.NewServer(turn.ServerConfig{
		Realm:         "test",
		LoggerFactory: iceLog{log: slog.New(slog.DiscardHandler)},
		AuthHandler: func(user, realm string, _ net.Addr) ([]byte, bool) {
			return turn.GenerateAuthKey(user, realm, testPass), user == testUser
		},
		PacketConnConfigs: []turn.PacketConnConfig{{PacketConn: pc, RelayAddressGenerator: generator}},
		ListenerConfigs:   []turn.ListenerConfig{{Listener: ln, RelayAddressGenerator: generator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return relayServer{
		udp:  pc.LocalAddr().(*net.UDPAddr).AddrPort(),
		tcp:  ln.Addr().(*net.TCPAddr).AddrPort(),
		turn: s,
	}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func loopbackConn(t testing.TB) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testMux(t testing.TB, conn net.PacketConn) *Mux {
	t.Helper()
	m, err := NewMux(conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// testConfig is the configuration of most tests.
func testConfig(m *Mux, controlling bool, servers ...Server) Config {
	return Config{Mux: m, Controlling: controlling, Servers: servers, Private: true, AllowLoopback: true}
}

func begin(t testing.TB, c Config) *Search {
	t.Helper()
	a, err := Start(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// introduce exchanges credentials and trickles candidates until both ends have
// no more.
func introduce(t testing.TB, a, b *Search) {
	t.Helper()
	credentials(t, a, b)
	credentials(t, b, a)
	trickle(t, a, b)
	trickle(t, b, a)
}

func credentials(t testing.TB, from, to *Search) {
	t.Helper()
	if err := to.SetRemote(from.Local()); err != nil {
		t.Error(err)
	}
}

// trickle passes candidates on in the background.
func trickle(t testing.TB, from, to *Search) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for c := range from.Candidates() {
			_ = to.AddRemote(c) // a refused candidate shows in the found paths
		}
	})
	t.Cleanup(func() {
		_ = from.Close()
		wg.Wait()
	})
}

func wait(t testing.TB, a *Search) Found {
	t.Helper()
	f, err := a.Wait(testContext(t))
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return f
}

// exchange sends datagrams both ways over two relays.
func exchange(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		for i := range 5 {
			want := fmt.Sprintf("\x40datagram %d", i)
			if _, err := way[0].Write([]byte(want)); err != nil {
				t.Fatalf("write: %v", err)
			}
			if err := way[1].SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 1500)
			n, err := way[1].Read(buf)
			if err != nil || string(buf[:n]) != want {
				t.Fatalf("read %q, %v; want %q", buf[:n], err, want)
			}
		}
	}
}
