package driver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/composetest"
)

// patroniScript is the shipped script that writes Patroni's configuration and becomes
// Patroni, changed only in where things are.
func patroniScript(t *testing.T, at, dir, store, pgBin, patroni string) string {
	t.Helper()
	compose, err := os.ReadFile("../../../../clusters/postgres/compose/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(composetest.Plain(string(compose)), "  patroni:\n    content: |\n")
	if !ok {
		t.Fatal("clusters/postgres/compose/postgres.yaml has no script of Patroni's")
	}
	text, _, _ = strings.Cut(text, "\nvolumes:")
	var script strings.Builder
	for line := range strings.Lines(text) {
		script.WriteString(strings.TrimPrefix(line, "      "))
	}
	return strings.NewReplacer(
		"$$", "$", "${postgres_bin}", pgBin, "/run/mesh", dir+"/mesh", "/tmp/", dir+"/tmp/",
		"unix_socket_directories: /tmp", "unix_socket_directories: "+dir, "127.0.0.1:8500", store, "127.0.0.1:8008", at+":8008",
		"127.0.0.1,$$CADRE_VIP:5432", "$CADRE_VIP:5432", "/var/lib/postgresql/data", dir+"/data", "127.50.0.0/16", "127.0.0.0/8",
		"|| echo patroni)", "|| echo "+patroni+")", "psql -v", pgBin+"/psql -v",
		// Shorter times, so that an expired lock is lost within the test.
		"ttl: 30", "ttl: 20", "retry_timeout: 10", "retry_timeout: 5",
	).Replace(script.String())
}

// aclStore is a Consul server with ACLs.
type aclStore struct {
	t    *testing.T
	addr string
}

const managementToken = "5c1e6f0a-7d2b-4c94-9a53-1f6a0d6f3b11"

func startACLStore(t *testing.T, binary, at string) *aclStore {
	t.Helper()
	dir := t.TempDir()
	p := &proc{t: t, log: filepath.Join(dir, "log"), argv: []string{
		binary, "agent", "-server", "-bootstrap-expect=1", "-data-dir", filepath.Join(dir, "data"), "-node", "store",
		"-bind", at, "-client", at, "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-serf-wan-port=-1",
		"-hcl", `performance { raft_multiplier = 1 } acl { enabled = true default_policy = "deny" tokens { initial_management = "` + managementToken + `" agent = "` + managementToken + `" } }`,
	}}
	p.start()
	s := &aclStore{t: t, addr: at + ":8500"}
	rules := `node_prefix "" { policy = "read" } service_prefix "" { policy = "read" } agent "store" { policy = "read" } key_prefix "service/postgres/" { policy = "write" } session "store" { policy = "write" }`
	body, err := json.Marshal(map[string]string{"Name": "workload", "Rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "start the store", func(context.Context) error { return s.call("PUT", "/v1/acl/policy", body, nil) })
	return s
}

func (s *aclStore) call(method, path string, body []byte, v any) error {
	req, err := http.NewRequest(method, "http://"+s.addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Consul-Token", managementToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // test
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, res.StatusCode, out)
	}
	if err == nil && v != nil {
		err = json.Unmarshal(out, v)
	}
	return err
}

type storeToken struct{ AccessorID, SecretID string }

func (s *aclStore) token() storeToken {
	s.t.Helper()
	var out storeToken
	if err := s.call("PUT", "/v1/acl/token", []byte(`{"Policies":[{"Name":"workload"}],"ExpirationTTL":"15m"}`), &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// lock returns the holder of the leader's lock, and its session.
func (s *aclStore) lock() (holder, session string) {
	s.t.Helper()
	var out []struct{ Value, Session string }
	if err := s.call("GET", "/v1/kv/service/postgres/leader", nil, &out); err != nil || len(out) != 1 {
		return "", ""
	}
	value, _ := base64.StdEncoding.DecodeString(out[0].Value)
	return string(value), out[0].Session
}

// standby returns the member that may take over from the leader that the store names, as Patroni
// records it there; "" if there is none.
func (s *aclStore) standby() (leader, standby string) {
	s.t.Helper()
	var out []struct{ Value string }
	if err := s.call("GET", "/v1/kv/service/postgres/sync", nil, &out); err != nil || len(out) != 1 {
		return "", ""
	}
	value, _ := base64.StdEncoding.DecodeString(out[0].Value)
	var sync struct {
		Leader  string `json:"leader"`
		Standby string `json:"sync_standby"`
	}
	if json.Unmarshal(value, &sync) != nil {
		return "", ""
	}
	return sync.Leader, sync.Standby
}

// give writes a token as the agent does.
func give(t *testing.T, dir string, uid int, token storeToken) {
	t.Helper()
	path := filepath.Join(dir, "mesh/consul-token")
	if err := os.WriteFile(path+".new", []byte(token.SecretID), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(path+".new", uid, -1), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// TestTOK15_PatroniKeepsItsLockThroughTokenChanges: each member gets a new token
// twice, the old ones are deleted, and neither leader, session nor timeline changes.
func TestTOK15_PatroniKeepsItsLockThroughTokenChanges(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts Consul and two PostgreSQL members")
	}
	consulBinary, patroniBinary := tool(t, "bin/consul"), tool(t, "patroni/bin/patroni")
	patroniBinary = filepath.Join(reachable(t, filepath.Dir(filepath.Dir(patroniBinary))), "bin/patroni")
	const pgBin = "/usr/lib/postgresql/15/bin"
	account, err := user.Lookup("postgres")
	if _, statErr := os.Stat(pgBin); statErr != nil || err != nil || os.Getuid() != 0 {
		t.Skip("needs PostgreSQL 15, root and an account named postgres: token changes were not tested against the real software")
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		t.Fatal(err)
	}
	addr := subnet(t, 7)
	store := startACLStore(t, consulBinary, addr(9).String())
	c := &realCluster{settle: 90 * time.Second}
	var dirs []string
	held := make([]storeToken, 2)
	for i := range 2 {
		name := fmt.Sprintf("postgres-%d", i)
		dir, err := os.MkdirTemp("", "cadre-token-") //nolint:usetesting // another user must reach it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		files := map[string]string{"patroni.sh": patroniScript(t, addr(i).String(), dir, store.addr, pgBin, patroniBinary)}
		for _, secret := range []string{"superuser", "replication", "rewind"} {
			files["mesh/secrets/"+secret] = "test"
		}
		for file, text := range files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.MkdirAll(dir+"/tmp", 0o755), os.Chown(dir, uid, -1), os.Chown(dir+"/tmp", uid, -1)); err != nil {
			t.Fatal(err)
		}
		held[i] = store.token()
		give(t, dir, uid, held[i])
		p := &proc{
			t: t, argv: []string{"/bin/sh", filepath.Join(dir, "patroni.sh")}, log: filepath.Join(dir, "log"), uid: uint32(uid),
			env: []string{"CADRE_GROUP=postgres", "CADRE_SLOT=" + name, "CADRE_VIP=" + addr(i).String()},
		}
		if err := os.WriteFile(p.log, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		p.start()
		vip := func(slot string) (netip.Addr, bool) {
			var n int
			_, err := fmt.Sscanf(slot, "postgres-%d", &n)
			return addr(n), err == nil
		}
		d, err := New(Config{Kind: "patroni", Self: name, VIP: vip, Local: addr(20 + i), Settings: map[string]string{"scope": "postgres"}})
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.drivers, c.procs, dirs = append(c.names, name), append(c.drivers, d), append(c.procs, p), append(dirs, dir)
	}
	c.dumpLogs(t)
	within(t, c.settle, "form", c.healthy)
	holder, session := store.lock()
	before, err := c.views(t.Context())
	if err != nil || holder == "" || session == "" {
		t.Fatalf("leader %q, session %q, error %v", holder, session, err)
	}
	for round := range 2 {
		for i, dir := range dirs {
			old := held[i]
			held[i] = store.token()
			give(t, dir, uid, held[i])
			within(t, 15*time.Second, "configuration with the new token", func(context.Context) error {
				text, err := os.ReadFile(filepath.Join(dir, "tmp/patroni.yml"))
				if err == nil && !bytes.Contains(text, []byte(held[i].SecretID)) {
					err = errors.New("patroni.yml has the old token")
				}
				return err
			})
			// Patroni reads it in its next cycle; the coordinators leave the old token for
			// minutes.
			<-time.After(5 * time.Second)
			if err := store.call("DELETE", "/v1/acl/token/"+old.AccessorID, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("round %d: all tokens changed, the old ones deleted", round)
	}
	// Longer than the lock lives without being renewed.
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for looking := true; looking; {
		if nowHolder, nowSession := store.lock(); nowHolder != holder || nowSession != session {
			t.Fatalf("the lock moved: %s by %s, was %s by %s", nowHolder, nowSession, holder, session)
		}
		select {
		case <-tick.C:
		case <-end.C:
			looking = false
		}
	}
	within(t, 10*time.Second, "still healthy", c.healthy)
	after, err := c.views(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range after {
		if after[i].Epoch != before[i].Epoch || after[i].Role != before[i].Role {
			t.Errorf("%s: role %s on timeline %d, was %s on %d", c.names[i], after[i].Role, after[i].Epoch, before[i].Role, before[i].Epoch)
		}
	}
}
