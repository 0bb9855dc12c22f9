package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/logging"
	"github.com/pion/turn/v3"
	"go.uber.org/goleak"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/limit"
	"cadre.dev/overlay/rendezvous/internal/member"
	"cadre.dev/overlay/rendezvous/internal/revoked"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = netip.MustParseAddr("127.0.0.1")

// meterCounts is a Meter that can be read.
type meterCounts struct {
	mu      sync.Mutex
	relayed int
	counts  map[string]int
}

func (t *meterCounts) Relayed(n int)       { t.mu.Lock(); defer t.mu.Unlock(); t.relayed += n }
func (t *meterCounts) Dropped(why string)  { t.add("dropped " + why) }
func (t *meterCounts) Refused(code string) { t.add("refused " + code) }

func (t *meterCounts) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

func (t *meterCounts) bytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.relayed
}

func (t *meterCounts) of(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bench is a relay with its client and its peer.
type bench struct {
	*Relay
	t           testing.TB
	mint        *credential.Mint
	revoked     revoked.List
	clock       clock
	meterCounts meterCounts
}

func newBench(t testing.TB, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, clock: clock{now: time.Now()}}
	b.mint = credential.New(10*time.Minute, b.revoked.Has, b.clock.Now())
	c := Config{
		Listen: []string{"127.0.0.1:0"}, RelayIP: loopback, RelayBind: loopback, Mint: b.mint,
		Limits: Limits{Allocations: 100, AllocationsPerSlot: 3, Bytes: limit.Rate{PerSecond: 1 << 30, Burst: 1 << 30}, Connections: 20, ConnectionsPerIP: 20},
		Meter:  &b.meterCounts, Now: b.clock.Now,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if b.Relay, err = Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func (b *bench) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.Ports()[0]) }

func who(cluster, slot, boot string) member.Member {
	return member.Member{ID: identity.ID{Cluster: cluster, Group: "db", Slot: slot}, Boot: strings.Repeat(boot, 64)}
}

// issue mints a credential that is used from this machine.
func (b *bench) issue(m member.Member) credential.Credential {
	return b.mint.Issue(m, loopback, b.clock.Now().Add(24*time.Hour), b.clock.Now())
}

// end revokes m's Boot as a coordinator of its cluster does.
func (b *bench) end(m member.Member) {
	boss := who(m.ID.Cluster, "coordinator-0", "0")
	b.revoked.Replace(boss, []string{m.Boot}, b.clock.Now())
}

// client is a TURN client of its own socket.
type client struct {
	*turn.Client
	relayed net.PacketConn
	close   func()
}

func (b *bench) client(network string, c credential.Credential) *client {
	b.t.Helper()
	var conn net.PacketConn
	if network == "tcp" {
		tcp, err := net.Dial("tcp", b.addr())
		if err != nil {
			b.t.Fatal(err)
		}
		conn = turn.NewSTUNConn(tcp)
	} else {
		udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			b.t.Fatal(err)
		}
		conn = udp
	}
	log := logging.NewDefaultLoggerFactory()
	log.DefaultLogLevel = logging.LogLevelDisabled
	tc, err := turn.NewClient(&turn.ClientConfig{
		STUNServerAddr: b.addr(), TURNServerAddr: b.addr(), Username: c.Username, Password: c.Password, Conn: conn, LoggerFactory: log,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := tc.Listen(); err != nil {
		b.t.Fatal(err)
	}
	cl := &client{Client: tc}
	cl.close = sync.OnceFunc(func() {
		if cl.relayed != nil {
			cl.relayed.Close()
		}
		tc.Close()
		conn.Close()
	})
	b.t.Cleanup(cl.close)
	return cl
}

// allocated is a client with an allocation.
func (b *bench) allocated(network string, c credential.Credential) *client {
	b.t.Helper()
	cl := b.client(network, c)
	var err error
	if cl.relayed, err = cl.Allocate(); err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// exchange sends from one allocation to another until it arrives.
func exchange(t testing.TB, from, to *client, text string) {
	t.Helper()
	if err := passes(from, to, text); err != nil {
		t.Errorf("%s did not arrive: %v", text, err)
	}
}

func passes(from, to *client, text string) error {
	buf := make([]byte, 2000)
	for range 40 {
		if _, err := from.relayed.WriteTo([]byte(text), to.relayed.LocalAddr()); err != nil {
			return err
		}
		_ = to.relayed.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, addr, err := to.relayed.ReadFrom(buf)
		if err == nil && string(buf[:n]) == text && addr.String() == from.relayed.LocalAddr().String() {
			return nil
		}
	}
	return errors.New("nothing came")
}
