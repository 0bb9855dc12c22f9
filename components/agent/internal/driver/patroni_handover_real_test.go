package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// reaper runs a command as init does in a CVM: it waits for every orphan, so that no zombie looks
// like a running process.
const reaper = `
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
for s in signal.SIGTERM, signal.SIGHUP:
    signal.signal(s, lambda s, _: os.kill(child, s))
while os.wait()[0] != child:
    pass
`

// rig is a cluster as clusters/postgres has it: three members, one of the two replicas
// synchronous, Consul as the store.
type rig struct {
	*realCluster
	store aclStore
	hosts []string
	psql  string
	// files are the members' configurations, and configs their contents.
	files   []string
	configs []map[string]any
}

// stockPatroni starts an unchanged Patroni.
func stockPatroni(_, patroni string) []string { return []string{patroni} }

// startRig starts members by command, each with the configuration that edit leaves.
func startRig(t *testing.T, kind byte, command func(python, patroni string) []string, edit func(i int, config map[string]any)) *rig {
	t.Helper()
	consulBinary, patroniBinary := tool(t, "bin/consul"), tool(t, "patroni/bin/patroni")
	patroniBinary = filepath.Join(reachable(t, filepath.Dir(filepath.Dir(patroniBinary))), "bin/patroni")
	python := filepath.Join(filepath.Dir(patroniBinary), "python3")
	const pgBin = "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(pgBin); err != nil {
		t.Skipf("no PostgreSQL at %s: this driver was not tested against the real software", pgBin)
	}
	account, err := user.Lookup("postgres")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and an account named postgres: PostgreSQL refuses to run as root")
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		t.Fatal(err)
	}
	addr := subnet(t, kind)
	r := &rig{
		realCluster: &realCluster{settle: 90 * time.Second}, psql: filepath.Join(pgBin, "psql"),
		store: aclStore{t: t, addr: startStore(t, consulBinary, addr(9).String())},
	}
	vip := func(slot string) (netip.Addr, bool) {
		var n int
		_, err := fmt.Sscanf(slot, "postgres-%d", &n)
		return addr(n), err == nil
	}
	for i := range 3 {
		name, at := fmt.Sprintf("postgres-%d", i), addr(i).String()
		dir, err := os.MkdirTemp("", "cadre-handover-") //nolint:usetesting // another user must reach it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
		config := patroniConfig(name, at, dir, pgBin, r.store.addr)
		config["scope"] = "postgres"
		dcs := config["bootstrap"].(map[string]any)["dcs"].(map[string]any)
		dcs["loop_wait"], dcs["synchronous_mode"], dcs["failsafe_mode"] = 2, true, true
		dcs["maximum_lag_on_failover"] = 1 << 20
		parameters := config["postgresql"].(map[string]any)["parameters"].(map[string]any)
		parameters["shared_buffers"], parameters["fsync"] = "32MB", "on"
		shared := map[string]any{
			"wal_log_hints": "on", "max_connections": 50, "wal_keep_size": "128MB", "wal_retrieve_retry_interval": "500ms", "log_timezone": "UTC",
		}
		dcs["postgresql"] = map[string]any{"use_pg_rewind": true, "use_slots": true, "parameters": shared}
		edit(i, config)
		file := filepath.Join(dir, "patroni.json")
		r.files, r.configs = append(r.files, file), append(r.configs, config)
		r.write(t, i)
		p := &proc{
			t: t, argv: append(append([]string{python, "-c", reaper}, command(python, patroniBinary)...), file), log: filepath.Join(dir, "log"), uid: uint32(uid),
			env: []string{"TZ=UTC"},
		}
		p.start()
		d, err := New(Config{Kind: "patroni", Self: name, VIP: vip, Local: addr(20 + i), Settings: map[string]string{"scope": "postgres"}})
		if err != nil {
			t.Fatal(err)
		}
		r.names, r.drivers, r.procs = append(r.names, name), append(r.drivers, d), append(r.procs, p)
		r.hosts = append(r.hosts, at)
	}
	r.dumpLogs(t)
	return r
}

// write has the configuration of member i in its file.
func (r *rig) write(t *testing.T, i int) {
	t.Helper()
	text, err := json.Marshal(r.configs[i])
	if err == nil {
		err = os.WriteFile(r.files[i], text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ready returns nil when all members are healthy and one of them may take over.
func (r *rig) ready(ctx context.Context) error {
	if err := r.healthy(ctx); err != nil {
		return err
	}
	if leader, standby := r.store.standby(); leader == "" || standby == "" {
		return fmt.Errorf("the store has %q behind %q", standby, leader)
	}
	return nil
}

// move holds the times of one hand-over, from its beginning to each of its events.
type move struct {
	events map[string]time.Duration
	gap    time.Duration // from the old leader's last write to the new one's first
}

// handOver moves leadership once, with writers at all members.
func (r *rig) handOver(t *testing.T, sessions []*session) move {
	t.Helper()
	from := r.leader(t)
	_, standby := r.store.standby()
	to := slices.Index(r.names, standby)
	marks := make([]int64, len(r.procs))
	for i, p := range r.procs {
		info, err := os.Stat(p.log)
		if err != nil {
			t.Fatal(err)
		}
		marks[i] = info.Size()
	}
	request, err := Prepare(t.Context(), r.drivers[from], TransferRequest{ExpectedLeader: r.names[from], Candidates: []string{standby}})
	if err != nil || request.Chosen.Candidate != standby {
		t.Errorf("prepare %s: %+v, %v", r.names[from], request.Chosen, err)
	}
	start := time.Now()
	got, err := r.drivers[from].Transfer(t.Context(), request)
	replied := time.Now()
	if err != nil || !got.Moved || got.Leader != standby {
		t.Fatalf("transfer from %s = %+v, %v; want %s", r.names[from], got, err, standby)
	}
	var first ack
	within(t, 10*time.Second, "write at the new leader", func(context.Context) error {
		acks := sessions[to].since(start)
		if len(acks) == 0 {
			return errors.New("none yet")
		}
		first = acks[0]
		return nil
	})
	within(t, r.settle, "settle", r.ready)
	settled := time.Now()
	var last ack
	for i, s := range sessions {
		for _, a := range s.since(start.Add(-time.Minute)) {
			if i == from {
				last = a
			}
			// The write started after another member's acknowledged write, so it is the later one.
			if i != to && a.asked.After(first.acknowledged) {
				t.Errorf("%s took a write at %s, %s one at %s: two primaries", r.names[i], a.asked, standby, first.acknowledged)
			}
		}
	}
	m := move{gap: first.acknowledged.Sub(last.acknowledged), events: map[string]time.Duration{
		"writable": first.acknowledged.Sub(start), "confirmed": replied.Sub(start), "settled": settled.Sub(start),
	}}
	m.read(t, r.procs[from].log, marks[from], start, [][2]string{
		{"asked", "received switchover request"}, {"demote", "Demoting self"}, {"stop", "received fast shutdown request"},
		{"down", "database system is shut down"}, {"released", "Leader key released"},
	})
	m.read(t, r.procs[to].log, marks[to], start, [][2]string{
		{"lock", "Cleaning up failover key after acquiring"}, {"promote", "received promote request"},
		{"accepts", "database system is ready to accept connections"}, {"synchronous", "Synchronous standby status assigned"},
	})
	return m
}

// read finds the first occurrence of each of texts in a log of Patroni and its PostgreSQL.
func (m *move) read(t *testing.T, file string, from int64, start time.Time, texts [][2]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data[from:])) {
		for _, text := range texts {
			if _, seen := m.events[text[0]]; seen || !strings.Contains(line, text[1]) || len(line) < 23 {
				continue
			}
			at, err := time.Parse("2006-01-02 15:04:05.000", strings.Replace(line[:23], ",", ".", 1))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			m.events[text[0]] = at.Sub(start)
		}
	}
}

// TestPatroniHandOver: planned hand-overs with writers at all members. No acknowledged write
// is lost and never do two members take writes. It logs where the time goes;
// CADRE_HANDOVERS=20 makes a measurement of it.
func TestPatroniHandOver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts Consul and three PostgreSQL members")
	}
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("CADRE_HANDOVERS")); err == nil {
		rounds = n
	}
	launched := func(python, _ string) []string { return []string{python, launcher(t)} }
	for _, c := range []struct {
		name    string
		kind    byte
		command func(python, patroni string) []string
		archive string
	}{
		{name: "stock", kind: 1, command: stockPatroni},
		{name: "launcher", kind: 5, command: launched},
		{name: "launcher with WAL to archive", kind: 11, command: launched, archive: "sleep 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			archive := func(_ int, config map[string]any) {
				if c.archive == "" {
					return
				}
				dcs := config["bootstrap"].(map[string]any)["dcs"].(map[string]any)
				parameters := dcs["postgresql"].(map[string]any)["parameters"].(map[string]any)
				parameters["archive_mode"], parameters["archive_command"] = "on", c.archive
			}
			handOvers(t, startRig(t, c.kind, c.command, archive), rounds)
		})
	}
}

func handOvers(t *testing.T, r *rig, rounds int) {
	t.Helper()
	within(t, r.settle, "form", r.ready)
	w := &writers{t: t, psql: r.psql, hosts: r.hosts}
	if _, err := w.sql(t.Context(), r.leader(t), "CREATE TABLE kept (id int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	sessions, stop := startSessions(t, r.psql, r.hosts)
	within(t, 10*time.Second, "a write", func(context.Context) error {
		if len(sessions[r.leader(t)].since(time.Time{})) == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	var moves []move
	for range rounds {
		moves = append(moves, r.handOver(t, sessions))
	}
	stop()
	for _, s := range sessions {
		for _, a := range s.since(time.Time{}) {
			w.acked = append(w.acked, a.id)
		}
	}
	if lost := w.lost(r.leader(t)); len(lost) > 0 {
		t.Errorf("%d of %d acknowledged writes are lost: %v", len(lost), len(w.acked), lost)
	}
	t.Logf("%d acknowledged writes in %d hand-overs", len(w.acked), rounds)
	report(t, moves)
}

// report logs median and longest of each event, in the order of the medians.
func report(t *testing.T, moves []move) {
	t.Helper()
	values := map[string][]time.Duration{}
	for _, m := range moves {
		values["(gap)"] = append(values["(gap)"], m.gap)
		for name, at := range m.events {
			values[name] = append(values[name], at)
		}
	}
	var names []string
	for name, v := range values {
		slices.Sort(v)
		names = append(names, name)
	}
	median := func(v []time.Duration) time.Duration { return v[len(v)/2] }
	slices.SortFunc(names, func(a, b string) int { return int(median(values[a]) - median(values[b])) })
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("load %s", strings.TrimSpace(string(load)))
	for _, name := range names {
		v := values[name]
		t.Logf("%-12s median %5d ms, longest %5d ms, %d times", name, median(v).Milliseconds(), v[len(v)-1].Milliseconds(), len(v))
	}
}
