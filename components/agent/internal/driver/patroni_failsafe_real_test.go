package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is how the other members reach one port of a member. The gate can be shut for all traffic,
// or only for requests that ask whether a primary without a store may continue.
type gate struct {
	to string

	mu    sync.Mutex
	shut  bool              // guarded by mu
	deaf  bool              // guarded by mu; to POST /failsafe
	conns map[net.Conn]bool // guarded by mu
}

func openGate(t *testing.T, at, to string) *gate {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{to: to, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		g.set(true, true)
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { g.carry(c) })
		}
	})
	return g
}

// set shuts the gate, and closes the connections through it.
func (g *gate) set(shut, deaf bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.deaf = shut, deaf
	for c := range g.conns {
		_ = c.Close()
	}
}

// keep notes a connection that set ends; false: the gate is shut.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = true
	return !g.shut
}

func (g *gate) refuses(first []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut || g.deaf && bytes.HasPrefix(first, []byte("POST /failsafe"))
}

func (g *gate) carry(from net.Conn) {
	defer from.Close() //nolint:errcheck // only the end of the connection matters
	to, err := net.Dial("tcp", g.to)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // as above
	if !g.keep(from) || !g.keep(to) {
		return
	}
	first := make([]byte, 64<<10)
	n, err := from.Read(first)
	if err != nil || g.refuses(first[:n]) {
		return
	}
	if _, err := to.Write(first[:n]); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(to, from); _ = to.Close() })
	both.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
	both.Wait()
}

// writers tries to write to every member in turn, and records the acknowledged writes with their
// members, in order.
type writers struct {
	t     *testing.T
	psql  string
	hosts []string
	last  int   // id
	acked []int // ids
	by    []int // the member that took a write, each time that it is another one
}

func (w *writers) sql(ctx context.Context, member int, text string) (string, error) {
	// Killed at its end, not cancelled: a cancelled wait for a replica would be reported as
	// a write that succeeded.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text,
		"host="+w.hosts[member]+" user=postgres password=test dbname=postgres connect_timeout=2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// round writes once to each member and reports which members acknowledged.
func (w *writers) round(ctx context.Context) (took []int) {
	w.t.Helper()
	for member := range w.hosts {
		w.last++
		if _, err := w.sql(ctx, member, "INSERT INTO kept VALUES ("+strconv.Itoa(w.last)+")"); err != nil {
			continue
		}
		w.acked = append(w.acked, w.last)
		took = append(took, member)
		if len(w.by) == 0 || w.by[len(w.by)-1] != member {
			w.by = append(w.by, member)
		}
	}
	return took
}

// lost are acknowledged writes that a member does not have.
func (w *writers) lost(member int) []int {
	w.t.Helper()
	text, err := w.sql(w.t.Context(), member, "SELECT id FROM kept")
	if err != nil {
		w.t.Fatal(err)
	}
	there := map[int]bool{}
	for line := range strings.Lines(text) {
		id, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			w.t.Fatal(err)
		}
		there[id] = true
	}
	var lost []int
	for _, id := range w.acked {
		if !there[id] {
			lost = append(lost, id)
		}
	}
	return lost
}

// TestPatroniFailsafeWithAnEvictedPrimary: the test deletes the token of the primary and ends its
// session. As long as all members answer the primary, it stays the primary, and no replica is
// promoted though the lock is free. Once the members are out of its reach, the primary demotes
// itself and the synchronous replica takes over. At no time do two members take writes, and no
// acknowledged write is lost.
func TestPatroniFailsafeWithAnEvictedPrimary(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts Consul and three PostgreSQL members")
	}
	consulBinary, patroniBinary := tool(t, "bin/consul"), tool(t, "patroni/bin/patroni")
	patroniBinary = filepath.Join(reachable(t, filepath.Dir(filepath.Dir(patroniBinary))), "bin/patroni")
	const pgBin = "/usr/lib/postgresql/15/bin"
	account, err := user.Lookup("postgres")
	if _, statErr := os.Stat(pgBin); statErr != nil || err != nil || os.Getuid() != 0 {
		t.Skip("needs PostgreSQL 15, root and an account named postgres: failsafe_mode was not tested against the real software")
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		t.Fatal(err)
	}
	addr := subnet(t, 9)
	gateAddr := subnet(t, 10)
	store := startACLStore(t, consulBinary, addr(9).String())
	c := &realCluster{settle: 90 * time.Second}
	var tokens []storeToken
	var rest, data []*gate
	w := &writers{t: t, psql: pgBin + "/psql"}
	for i := range 3 {
		name := fmt.Sprintf("postgres-%d", i)
		dir, err := os.MkdirTemp("", "cadre-failsafe-") //nolint:usetesting // another user must reach it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, store.token())
		at, outside := addr(i).String(), gateAddr(i).String()
		rest = append(rest, openGate(t, outside+":8008", at+":8008"))
		data = append(data, openGate(t, outside+":5432", at+":5432"))
		config := patroniConfig(name, at, dir, pgBin, store.addr)
		config["scope"] = "postgres"
		config["consul"].(map[string]any)["token"] = tokens[i].SecretID
		config["restapi"].(map[string]any)["connect_address"] = outside + ":8008"
		config["postgresql"].(map[string]any)["connect_address"] = outside + ":5432"
		dcs := config["bootstrap"].(map[string]any)["dcs"].(map[string]any)
		for key, value := range map[string]any{"ttl": 20, "loop_wait": 2, "retry_timeout": 5, "synchronous_mode": true, "failsafe_mode": true} {
			dcs[key] = value
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "patroni.json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		p := &proc{t: t, argv: []string{patroniBinary, file}, log: filepath.Join(dir, "log"), uid: uint32(uid)}
		p.start()
		vip := func(slot string) (netip.Addr, bool) {
			var n int
			_, err := fmt.Sscanf(slot, "postgres-%d", &n)
			return gateAddr(n), err == nil
		}
		d, err := New(Config{Kind: "patroni", Self: name, VIP: vip, Local: addr(i), Settings: map[string]string{"scope": "postgres"}})
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.drivers, c.procs = append(c.names, name), append(c.drivers, d), append(c.procs, p)
		w.hosts = append(w.hosts, at)
	}
	c.dumpLogs(t)
	within(t, c.settle, "form", c.healthy)
	evicted := c.leader(t)
	if _, err := w.sql(t.Context(), evicted, "CREATE TABLE kept (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	within(t, c.settle, "a synchronous replica", func(ctx context.Context) error {
		n, err := w.sql(ctx, evicted, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
		if err == nil && n != "1" {
			err = fmt.Errorf("%s synchronous replicas", n)
		}
		// PostgreSQL knows the standby before the store does. Until then no replica may take over.
		if leader, standby := store.standby(); err == nil && (leader != c.names[evicted] || standby == "") {
			err = fmt.Errorf("the store has %q behind %q", standby, leader)
		}
		return err
	})
	if took := w.round(t.Context()); !slices.Equal(took, []int{evicted}) {
		t.Fatalf("before: %v took a write", took)
	}

	// Same order as the coordinators: the token first, so that it cannot create a new session.
	holder, session := store.lock()
	if holder != c.names[evicted] {
		t.Fatalf("the lock is %q's, %s leads", holder, c.names[evicted])
	}
	if err := errors.Join(store.call("DELETE", "/v1/acl/token/"+tokens[evicted].AccessorID, nil, nil), store.call("PUT", "/v1/session/destroy/"+session, nil, nil)); err != nil {
		t.Fatal(err)
	}
	evictedAt, before := time.Now(), len(w.acked)
	// More turns than the lock would live: 12 of 2 s, its ttl is 20 s.
	const goesOn = "continue to run as a leader because failsafe mode is enabled"
	within(t, 3*time.Minute, "the evicted primary goes on by the others' word", func(ctx context.Context) error {
		w.round(ctx)
		log, err := os.ReadFile(c.procs[evicted].log)
		if n := bytes.Count(log, []byte(goesOn)); err == nil && n < 12 {
			err = fmt.Errorf("%d turns", n)
		}
		return err
	})
	if holder, _ := store.lock(); holder != "" || !slices.Equal(w.by, []int{evicted}) {
		t.Errorf("with its peers in reach: the lock is %q's, writes were taken by %v, want a free lock and %d alone", holder, w.by, evicted)
	}
	t.Logf("without token and session for %s: %d writes taken by %s", time.Since(evictedAt).Round(time.Second), len(w.acked)-before, c.names[evicted])

	// Then cut off the peers, as the overlay does for an evicted member.
	cutAt := time.Now()
	rest[evicted].set(true, true)
	data[evicted].set(true, true)
	for i, g := range rest {
		if i != evicted {
			g.set(false, true)
		}
	}
	var next int
	within(t, 2*time.Minute, "another primary", func(ctx context.Context) error {
		took := w.round(ctx)
		if len(took) == 0 || took[len(took)-1] == evicted {
			return fmt.Errorf("writes are taken by %v", took)
		}
		next = took[len(took)-1]
		return nil
	})
	t.Logf("%s took writes %s after the cut", c.names[next], time.Since(cutAt).Round(100*time.Millisecond))
	for range 20 {
		if took := w.round(t.Context()); slices.Contains(took, evicted) {
			t.Fatalf("%v take writes, the evicted one is %d", took, evicted)
		}
	}
	if !slices.Equal(w.by, []int{evicted, next}) {
		t.Errorf("writes were taken by %v in turn, want %d and then %d: two took them at one time", w.by, evicted, next)
	}
	if lost := w.lost(next); len(lost) > 0 {
		t.Errorf("%d of %d acknowledged writes are lost: %v", len(lost), len(w.acked), lost)
	}
	if holder, _ := store.lock(); holder != c.names[next] {
		t.Errorf("the lock is %q's, %s takes writes", holder, c.names[next])
	}
	t.Logf("%d acknowledged writes, none lost", len(w.acked))
}
