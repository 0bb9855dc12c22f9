package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPatroniStates takes one real cluster through the states in which a driver was wrong before.
// All states share one cluster, since each cluster takes many seconds to start.
func TestPatroniStates(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts Consul and three PostgreSQL members")
	}
	r := startRig(t, 14, stockPatroni, func(_ int, config map[string]any) {
		dcs := config["bootstrap"].(map[string]any)["dcs"].(map[string]any)
		dcs["synchronous_mode"], dcs["synchronous_node_count"] = "quorum", 1
		config["postgresql"].(map[string]any)["parameters"].(map[string]any)["fsync"] = "off"
	})
	within(t, r.settle, "form", r.healthy)
	for _, state := range []func(*testing.T){r.cascadeAndDelay, r.quorumMode, r.slowAnswers, r.waitsForRestart, r.startFails, r.lockedAPI} {
		began := time.Now()
		state(t)
		t.Logf("took %s", time.Since(began).Round(time.Second))
	}
}

// quorumMode: a replica with nosync is no candidate, and the driver requests the next one.
func (r *rig) quorumMode(t *testing.T) {
	t.Helper()
	from := r.leader(t)
	nosync, to := (from+1)%3, (from+2)%3
	r.configs[nosync]["tags"] = map[string]any{"nosync": true}
	r.reload(t, nosync)
	r.roles(t, map[int]string{from: "leader", nosync: "replica", to: "quorum_standby"})
	out, err := r.drivers[from].Transfer(t.Context(), TransferRequest{
		ExpectedLeader: r.names[from], Candidates: []string{r.names[nosync], r.names[to]},
	})
	if err != nil || !out.Moved || out.Leader != r.names[to] {
		t.Fatalf("transfer with a nosync candidate first = %+v, %v; want %s", out, err, r.names[to])
	}
	delete(r.configs[nosync], "tags")
	r.reload(t, nosync)
	within(t, r.settle, "settle", r.healthy)
}

// cascadeAndDelay: a replica of a replica that replays with a delay counts as caught up if it can
// never lead.
func (r *rig) cascadeAndDelay(t *testing.T) {
	t.Helper()
	l := r.leader(t)
	at, source := (l+1)%3, (l+2)%3
	local := r.configs[at]["postgresql"].(map[string]any)
	local["recovery_conf"] = map[string]any{"recovery_min_apply_delay": "1h"}
	r.configs[at]["tags"] = map[string]any{"replicatefrom": r.names[source], "nofailover": true}
	r.reload(t, at)
	within(t, r.settle, "follow another replica", func(ctx context.Context) error {
		v, err := r.drivers[l].Observe(ctx)
		if err == nil && !slices.Equal(v.Followers, []string{r.names[source]}) {
			err = fmt.Errorf("%s streams to %v", r.names[l], v.Followers)
		}
		return err
	})
	w := &writers{t: t, psql: r.psql, hosts: r.hosts}
	// Only commits are delayed, with all writes after the first commit.
	for _, text := range []string{"CREATE TABLE small (id int)", "CREATE TABLE big AS SELECT repeat(md5(n::text), 16) FROM generate_series(1, 40000) n"} {
		if _, err := w.sql(t.Context(), l, text); err != nil {
			t.Fatal(err)
		}
	}
	within(t, r.settle, "receive WAL that it does not replay", r.healthy)
	tag := r.configs[at]["tags"].(map[string]any)
	delete(tag, "nofailover")
	r.reload(t, at)
	within(t, r.settle, "be behind without the tag", func(ctx context.Context) error {
		v, err := r.drivers[at].Observe(ctx)
		if err == nil && !strings.Contains(v.Message, "recovery_min_apply_delay") {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	delete(local, "recovery_conf")
	delete(r.configs[at], "tags")
	r.reload(t, at)
	within(t, r.settle, "be like the others again", func(ctx context.Context) error {
		v, err := r.drivers[l].Observe(ctx)
		if err == nil && len(v.Followers) != 2 {
			err = fmt.Errorf("%s streams to %v", r.names[l], v.Followers)
		}
		return errors.Join(err, r.healthy(ctx))
	})
}

// reload has member i read its configuration again.
func (r *rig) reload(t *testing.T, i int) {
	t.Helper()
	r.write(t, i)
	if err := r.procs[i].cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// roles waits until Patroni shows those members in those roles.
func (r *rig) roles(t *testing.T, want map[int]string) {
	t.Helper()
	within(t, r.settle, fmt.Sprintf("be %v", want), func(ctx context.Context) error {
		c, err := r.drivers[0].(*patroni).cluster(ctx)
		for i, role := range want {
			if m, _ := c.member(r.names[i]); err == nil && m.Role != role {
				err = fmt.Errorf("%s is %s", m.Name, m.Role)
			}
		}
		return err
	})
}

// rest calls Patroni's API of member i as an operator does.
func (r *rig) rest(method string, i int, path string, body any) (string, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequest(method, "http://"+r.hosts[i]+":8008"+path, bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // test
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, res.StatusCode, out)
	}
	return string(out), err
}

// slowAnswers: PostgreSQL does not answer Patroni's API, then Patroni answers nothing; the database
// serves all the time.
func (r *rig) slowAnswers(t *testing.T) {
	t.Helper()
	l := r.leader(t)
	follower := (l + 1) % 3
	w := &writers{t: t, psql: r.psql, hosts: r.hosts}
	out, err := w.sql(t.Context(), l, "SELECT pid FROM pg_stat_activity WHERE application_name = 'Patroni restapi'")
	pid, convErr := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || convErr != nil {
		t.Fatalf("the backend of the REST API: %q, %v", out, err)
	}
	stopped := func(pid int, look func()) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT) //nolint:errcheck // test
		// Each thread stops on its own, and a running thread may still answer.
		within(t, r.settle, "stop", func(context.Context) error { return threadsStopped(max(pid, -pid)) })
		look()
	}
	stopped(pid, func() {
		v, err := r.drivers[l].Observe(t.Context())
		if err != nil || v.Liveness != LivenessAlive || v.Role != RoleLeader || !v.Ready || v.MayDisrupt || !strings.Contains(v.Message, "no answer within 900ms") {
			t.Errorf("a leader whose PostgreSQL is slow to Patroni: %+v, %v", v, err)
		}
		if _, err := w.sql(t.Context(), l, "CREATE TABLE served (id int)"); err != nil {
			t.Errorf("it did not serve: %v", err)
		}
		r.drivers[follower].(*patroni).see(seenCluster{})
		v, err = r.drivers[follower].Observe(t.Context())
		if err != nil || v.Liveness != LivenessAlive || v.Leader != r.names[l] {
			t.Errorf("a replica of it: %+v, %v; want %s named as leader", v, err, r.names[l])
		}
	})
	within(t, r.settle, "answer again", r.healthy)
	stopped(-r.procs[l].cmd.Process.Pid, func() {
		v, err := r.drivers[l].Observe(t.Context())
		if err != nil || v.Liveness != LivenessUnknown || v.MayDisrupt || !strings.Contains(v.Message, "no answer within 900ms") {
			t.Errorf("a Patroni that hangs: %+v, %v", v, err)
		}
		if v, err = r.drivers[follower].Observe(t.Context()); err != nil || v.Leader != r.names[l] {
			t.Errorf("a replica of it: %+v, %v; want %s named as leader", v, err, r.names[l])
		}
	})
	within(t, r.settle, "answer again", r.healthy)
}

// threadsStopped returns nil once a signal has stopped every thread of a process.
func threadsStopped(pid int) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no thread of process %d: %w", pid, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended
		}
		// The state follows the name, which is in parentheses.
		if rest := text[bytes.LastIndexByte(text, ')')+1:]; !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("T")) {
			return fmt.Errorf("%s: %s", file, text)
		}
	}
	return nil
}

// startFails: the data is of a newer major version, as after an undo. Patroni stays up and starts
// PostgreSQL again and again.
func (r *rig) startFails(t *testing.T) {
	t.Helper()
	at := (r.leader(t) + 1) % 3
	file := filepath.Join(filepath.Dir(r.files[at]), "data/PG_VERSION")
	version := func(text string) {
		t.Helper()
		r.procs[at].stop()
		if v, err := r.drivers[at].Observe(t.Context()); err != nil || v.Liveness != LivenessRefused {
			t.Errorf("a stopped Patroni: %+v, %v", v, err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.procs[at].start()
	}
	version("18")
	within(t, r.settle, "fail to start", func(ctx context.Context) error {
		v, err := r.drivers[at].Observe(ctx)
		if err == nil && (v.Liveness != LivenessAlive || !strings.Contains(v.Message, "data of its own major version only, here 15")) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	if err := r.drivers[at].Drain(t.Context()); err != nil {
		t.Errorf("drain of it: %v", err)
	}
	version("15")
	within(t, r.settle, "stream again", r.healthy)
}

// waitsForRestart: a parameter that Patroni cannot put in force is reported, and the member is well.
func (r *rig) waitsForRestart(t *testing.T) {
	t.Helper()
	r.patch(t, map[string]any{"postgresql": map[string]any{"parameters": map[string]any{"max_connections": 40}}})
	within(t, r.settle, "wait for a restart", func(ctx context.Context) error {
		views, err := r.views(ctx)
		for i, v := range views {
			if err == nil && !strings.Contains(v.Fault, "max_connections (pending_restart)") {
				err = fmt.Errorf("%s: %q", r.names[i], v.Fault)
			}
		}
		return err
	})
	within(t, r.settle, "be well", r.healthy)
}

// lockedAPI: TLS, client certificates and a login on Patroni's API, and the synchronous mode.
// Without the settings the driver names the missing one, and with them it hands over.
func (r *rig) lockedAPI(t *testing.T) {
	t.Helper()
	ca := newAuthority(t)
	settings := map[string]string{"scope": "postgres", "ca_file": ca.ca, "username": "cadre", "password_file": filepath.Join(t.TempDir(), "password")}
	settings["cert_file"], settings["key_file"] = ca.issue("agent")
	if err := os.WriteFile(settings["password_file"], []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.patch(t, map[string]any{"synchronous_mode": true})
	for i, config := range r.configs {
		addr := netip.MustParseAddr(r.hosts[i])
		cert, key := ca.issue(r.names[i], addr)
		dir := filepath.Dir(r.files[i])
		var at []string
		for _, file := range []string{ca.ca, cert, key} {
			data, err := os.ReadFile(file)
			to := filepath.Join(dir, filepath.Base(file))
			if err == nil {
				err = os.WriteFile(to, data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, to)
		}
		api := config["restapi"].(map[string]any)
		api["cafile"], api["certfile"], api["keyfile"], api["verify_client"] = at[0], at[1], at[2], "required"
		api["authentication"] = map[string]string{"username": "cadre", "password": "s3cret"}
		config["ctl"] = map[string]any{"cacert": at[0], "certfile": at[1], "keyfile": at[2]}
		r.reload(t, i)
	}
	with := func(names ...string) {
		t.Helper()
		chosen := map[string]string{"scope": "postgres"}
		for _, name := range names {
			chosen[name] = settings[name]
		}
		for i := range r.drivers {
			d := r.drivers[i].(*patroni)
			next, err := New(Config{Kind: "patroni", Self: d.self, VIP: d.vip, Local: d.at, Settings: chosen})
			if err != nil {
				t.Fatal(err)
			}
			r.drivers[i] = next
		}
	}
	says := func(setting string) {
		t.Helper()
		within(t, r.settle, "name the setting "+setting, func(ctx context.Context) error {
			views, err := r.views(ctx)
			for i, v := range views {
				if err == nil && (v.Liveness != LivenessAlive || v.MayDisrupt || !strings.Contains(v.Message, setting)) {
					err = fmt.Errorf("%s: %+v", r.names[i], v)
				}
			}
			return err
		})
		v, _ := r.drivers[0].Observe(t.Context())
		t.Log(v.Message)
	}
	says("ca_file")
	with("ca_file")
	says("cert_file")
	with("ca_file", "cert_file", "key_file")
	within(t, r.settle, "be well by TLS", r.healthy)
	from := r.leader(t)
	to := -1
	within(t, r.settle, "have a synchronous standby", func(ctx context.Context) error {
		c, err := r.drivers[from].(*patroni).cluster(ctx)
		for i, name := range r.names {
			if m, _ := c.member(name); err == nil && m.Role == "sync_standby" {
				to = i
				return nil
			}
		}
		return fmt.Errorf("%+v, %w", c, err)
	})
	request := TransferRequest{ExpectedLeader: r.names[from], Candidates: []string{r.names[3-from-to], r.names[to]}}
	if out, err := r.drivers[from].Transfer(t.Context(), request); !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "username and password_file") {
		t.Errorf("transfer without a login = %+v, %v", out, err)
	}
	with("ca_file", "cert_file", "key_file", "username", "password_file")
	if out, err := r.drivers[from].Transfer(t.Context(), request); err != nil || out.Leader != r.names[to] {
		t.Errorf("transfer = %+v, %v; want the synchronous %s", out, err, r.names[to])
	}
	within(t, r.settle, "settle by TLS", r.healthy)
}

func (r *rig) patch(t *testing.T, config any) {
	t.Helper()
	if _, err := r.rest(http.MethodPatch, 0, "/config", config); err != nil {
		t.Fatal(err)
	}
}
