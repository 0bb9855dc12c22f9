package secrets_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

type guest struct{}

func (guest) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	mac := hmac.New(sha256.New, []byte("app"))
	mac.Write([]byte(path + "|" + purpose))
	return mac.Sum(nil), nil
}

// pool is a real Consul of three servers and some clients, in a network of its own.
type pool struct {
	t       *testing.T
	root    *keys.Root
	binary  string
	servers []*supervise.Consul
	vips    []netip.Addr
	store   *store.Consul
	views   *view.Watcher
	client  *consul.Client
	reports *reports.Reports
	all     sync.WaitGroup
	log     *slog.Logger
}

const firstPort = 18500

func newPool(t *testing.T) *pool {
	root, err := keys.Derive(t.Context(), guest{}, "demo", "0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, root: root, binary: storetest.ConsulBinary(t), reports: reports.New(time.Now), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	for n := range 3 {
		p.vips = append(p.vips, netip.AddrFrom4([4]byte{127, 50, 0, byte(n + 1)}))
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); p.all.Wait() })
	for n := range p.vips {
		p.servers = append(p.servers, p.server(ctx, n))
	}
	address := fmt.Sprintf("127.0.0.1:%d", firstPort)
	if p.client, err = consul.NewClient(&consul.Config{Address: address, Token: root.ManagementToken().RevealString()}); err != nil {
		t.Fatal(err)
	}
	if p.store, err = store.NewConsul(store.ConsulConfig{Address: address, Token: root.ManagementToken().RevealString()}); err != nil {
		t.Fatal(err)
	}
	p.views = view.NewWatcher(p.store, slog.New(slog.DiscardHandler))
	p.all.Go(func() { _ = p.views.Run(ctx) })
	p.eventually("three voters", func() error {
		raft, err := p.client.Operator().RaftGetConfiguration(nil)
		if err == nil && len(raft.Servers) != 3 {
			err = fmt.Errorf("%d servers", len(raft.Servers))
		}
		return err
	})
	return p
}

func (p *pool) server(ctx context.Context, n int) *supervise.Consul {
	dir := p.t.TempDir()
	gossip, err := p.root.Gossip(ctx, 1)
	if err != nil {
		p.t.Fatal(err)
	}
	cfg := supervise.Config{
		Binary: p.binary, DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"), Datacenter: "dc1",
		Node: fmt.Sprintf("coordinator-%d", n), VIP: p.vips[n], Servers: 3, HTTPPort: firstPort + n, GossipKey: gossip,
		ManagementToken: p.root.ManagementToken(), CAPEM: p.root.CA().PEM(),
	}
	for _, other := range p.vips {
		if other != cfg.VIP {
			cfg.Others = append(cfg.Others, other)
		}
	}
	server := supervise.New(cfg, func(now time.Time) ([]byte, []byte, error) {
		return p.root.CA().ConsulTLS(keys.ConsulServer, cfg.Node, "dc1", true, now)
	}, slog.New(slog.DiscardHandler))
	if err := os.MkdirAll(cfg.RunDir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := server.SetAgentToken(p.root.ManagementToken()); err != nil {
		p.t.Fatal(err)
	}
	p.all.Go(func() { _ = server.Run(ctx) })
	return server
}

// worker starts a client agent with the gossip key of epoch, as a Slot's agent does.
func (p *pool) worker(name string, n int, epoch uint32) (stop func()) {
	p.t.Helper()
	dir := p.t.TempDir()
	gossip, err := p.root.Gossip(p.t.Context(), epoch)
	if err != nil {
		p.t.Fatal(err)
	}
	cert, key, err := p.root.CA().ConsulTLS(keys.ConsulClient, name, "dc1", true, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	for file, data := range map[string][]byte{"ca.pem": p.root.CA().PEM(), "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	doc, err := json.Marshal(map[string]any{
		"node_name": name, "datacenter": "dc1", "data_dir": filepath.Join(dir, "data"), "bind_addr": fmt.Sprintf("127.50.1.%d", n), "client_addr": "127.0.0.1",
		"ports":   map[string]int{"http": firstPort + 10 + n, "dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1},
		"encrypt": gossip.RevealString(), "disable_keyring_file": true, "retry_join": []string{"127.50.0.1", "127.50.0.2"}, "retry_interval": "1s",
		"leave_on_terminate": false, "disable_update_check": true, "log_level": "WARN",
		"acl": map[string]any{"enabled": true, "default_policy": "deny", "tokens": map[string]string{"agent": p.root.ManagementToken().RevealString()}},
		"tls": map[string]any{
			"defaults":     map[string]any{"ca_file": dir + "/ca.pem", "cert_file": dir + "/cert.pem", "key_file": dir + "/key.pem"},
			"internal_rpc": map[string]any{"verify_incoming": true, "verify_outgoing": true, "verify_server_hostname": true},
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(dir, "consul.json")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(p.binary, "agent", "-config-file="+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
		})
	}
	p.t.Cleanup(stop)
	return stop
}

// admit records a Boot of the Slot, and what its agent reports. As admissions do, it
// comes after a first leader.
func (p *pool) admit(slot string, epoch uint32) {
	p.t.Helper()
	if _, err := p.store.Get(p.t.Context(), store.TermKey); errors.Is(err, store.ErrNotFound) {
		lease, err := store.AcquireBlocking(p.t.Context(), p.store, "coordinator-0", func(error) {})
		if err == nil {
			err = lease.Release(p.t.Context())
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	op, err := store.Put(store.AdmissionKey(slot), policy.Admission{Slot: slot, Group: "web", BootID: "b-" + slot}, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.store.Commit(p.t.Context(), op); err != nil && !errors.Is(err, store.ErrConflict) {
		p.t.Fatal(err)
	}
	p.report(slot, epoch)
}

func (p *pool) report(slot string, epoch uint32) {
	p.reports.Put(slot, "b-"+slot, &controlv1.Report{Sequence: uint64(time.Now().UnixNano()), GossipEpoch: epoch})
}

// lead runs a leader until ctx ends; the Lease is given up then.
func (p *pool) lead(ctx context.Context, name string, failpoint func(string)) (done chan struct{}) {
	p.t.Helper()
	keyring, err := secrets.NewKeyring(fmt.Sprintf("127.0.0.1:%d", firstPort), p.root.ManagementToken())
	if err != nil {
		p.t.Fatal(err)
	}
	r := secrets.NewRotator(secrets.RotatorConfig{
		Keys: p.root, Keyring: keyring, Store: p.store, Views: p.views, Reports: p.reports,
		Coordinators: []string{"coordinator-0", "coordinator-1", "coordinator-2"}, Now: time.Now, Failpoint: failpoint, Log: p.log,
	})
	lease, err := store.AcquireBlocking(ctx, p.store, name, func(error) {})
	if err != nil {
		p.t.Fatal(err)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		r.Lead(ctx, lease)
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = lease.Release(release)
	}()
	return done
}

func (p *pool) ask(reason string) {
	p.t.Helper()
	r := secrets.NewRotator(secrets.RotatorConfig{Store: p.store, Now: time.Now})
	if err := r.RotateGossip(p.t.Context(), reason); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pool) record() (store.SecretRecord, error) {
	rec, _, err := store.Read[store.SecretRecord](p.t.Context(), p.store, store.SecretKey(store.ClusterSecrets, store.GossipSecret))
	return rec, err
}

func (p *pool) atRest(epoch uint32) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("epoch %d at rest", epoch), func() error {
		rec, err := p.record()
		if err == nil && (rec.Epoch != epoch || rec.Step != store.RotationRest) {
			err = fmt.Errorf("epoch %d, step %q", rec.Epoch, rec.Step)
		}
		return err
	})
	if err := p.oneKey(epoch); err != nil {
		p.t.Fatal(err)
	}
}

// oneKey is nil when every member has the key of epoch and no other.
func (p *pool) oneKey(epoch uint32) error {
	ring, err := p.client.Operator().KeyringList(nil)
	if err != nil || len(ring) != 1 || len(ring[0].Keys) != 1 {
		return fmt.Errorf("keyring: %d rings, want one key everywhere: %w", len(ring), err)
	}
	key, err := p.root.Gossip(p.t.Context(), epoch)
	if err != nil || ring[0].PrimaryKeys[key.RevealString()] != ring[0].NumNodes {
		return fmt.Errorf("the key of epoch %d is not everybody's: %w", epoch, err)
	}
	return nil
}

func (p *pool) alive(name string) bool {
	members, err := p.client.Agent().Members(false)
	if err != nil {
		return false
	}
	for _, m := range members {
		if m.Name == name && m.Status == 1 {
			return true
		}
	}
	return false
}

func (p *pool) eventually(what string, try func() error) {
	p.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			p.t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// watch writes and looks at the members all the time until it is stopped; it counts
// writes that did not work and members that dropped out.
func (p *pool) watch(names ...string) (stop func() (writes, failed, dropped int64)) {
	ctx, cancel := context.WithCancel(context.Background())
	var writes, failed, dropped atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, err := p.client.KV().Put(&consul.KVPair{Key: "writer", Value: []byte("x")}, (&consul.WriteOptions{}).WithContext(ctx))
			if writes.Add(1); err != nil && ctx.Err() == nil {
				failed.Add(1)
			}
			for _, name := range names {
				if !p.alive(name) && ctx.Err() == nil {
					dropped.Add(1)
				}
			}
			<-tick.C
		}
	})
	return func() (int64, int64, int64) {
		cancel()
		all.Wait()
		return writes.Load(), failed.Load(), dropped.Load()
	}
}

// TOK-10 on real Consul: three servers and two clients. Nobody drops out while the
// key is rotated, a crash after any step is finished by another leader, and the key
// of a member that was removed opens nothing afterwards.
func TestTOK10_GossipKeyRotatesUnderLoadAndAcrossCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five Consul agents")
	}
	if !testnet.Isolated(t) {
		return
	}
	p := newPool(t)
	stopWeb1 := p.worker("web-1", 2, 1)
	p.worker("web-0", 1, 1)
	everybody := []string{"coordinator-0", "coordinator-1", "coordinator-2", "web-0", "web-1"}
	for _, name := range everybody {
		p.eventually(name+" is a member", func() error {
			if !p.alive(name) {
				return errors.New("it is not")
			}
			return nil
		})
	}
	p.admit("web-0", 0)
	p.admit("web-1", 0)

	ctx, cancel := context.WithCancel(t.Context())
	done := p.lead(ctx, "coordinator-0", func(string) {})
	stop := p.watch(everybody...)
	p.ask("the test asks")
	p.atRest(2)
	cancel()
	<-done

	// A crash after the effect of each step, before it is recorded.
	epoch := uint32(2)
	for _, step := range []string{"install", "use", "settle", "remove"} {
		epoch++
		crash, die := context.WithCancel(t.Context())
		done := p.lead(crash, "coordinator-1", func(name string) {
			if name == "gossip-"+step+"-done" {
				die()
			}
		})
		p.ask("crash after " + step)
		<-done
		if rec, err := p.record(); err != nil || string(rec.Step) != step {
			t.Errorf("after the crash the record is at %q, want %q: %v", rec.Step, step, err)
		}
		next, end := context.WithCancel(t.Context())
		done = p.lead(next, "coordinator-2", func(string) {})
		p.atRest(epoch)
		end()
		<-done
	}
	writes, failed, dropped := stop()
	t.Logf("%d writes during %d rotations", writes, epoch-1)
	if failed > 0 || dropped > 0 || writes < 20 {
		t.Errorf("of %d writes %d failed; members were missing %d times", writes, failed, dropped)
	}

	// A member is removed: its record goes, its process lives on with the key.
	began := time.Now()
	if err := p.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.AdmissionKey("web-1")}); err != nil {
		t.Fatal(err)
	}
	stopWeb1() // its Sessions are cut: Consul cannot reach it any more
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	done = p.lead(ctx, "coordinator-0", func(string) {})
	p.ask("web-1 was removed")
	epoch++
	p.atRest(epoch)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the removed member's key worked for %s", took)
	}
	p.worker("intruder", 3, epoch-1)
	p.worker("newcomer", 4, epoch)
	p.eventually("a member with the key in force joins", func() error {
		if !p.alive("newcomer") {
			return errors.New("it does not")
		}
		return nil
	})
	// The intruder began first and tries each second.
	again := time.NewTimer(5 * time.Second)
	defer again.Stop()
	<-again.C
	if p.alive("intruder") {
		t.Error("a member joined with a key that was rotated away")
	}
	cancel()
	<-done
}

// TOK-10: the leader waits for an agent that is behind, but not for ever.
func TestTOK10_SettlesForMembersThatAreBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul agents")
	}
	if !testnet.Isolated(t) {
		return
	}
	p := newPool(t)
	p.admit("web-0", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := p.lead(ctx, "coordinator-0", func(string) {})
	defer func() { cancel(); <-done }()
	p.ask("the test asks")
	p.eventually("settle", func() error {
		p.report("web-0", 1) // it is alive, and behind
		rec, err := p.record()
		if err == nil && rec.Step != store.RotationSettle {
			err = fmt.Errorf("step %q", rec.Step)
		}
		return err
	})
	p.report("web-0", 2)
	p.atRest(2)
}

// A server that was away for a rotation joins again with the key in force.
func TestTOK10_ServerThatWasAwayJoinsWithTheKeyInForce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul agents")
	}
	if !testnet.Isolated(t) {
		return
	}
	p := newPool(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := p.lead(ctx, "coordinator-0", func(string) {})
	defer func() { cancel(); <-done }()
	p.ask("the test asks")
	p.atRest(2)
	// It starts with what it was told first, which nobody sends with any more.
	old, err := p.root.Gossip(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := p.root.Gossip(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	// The first call has no effect on the file: the server began with this key.
	if err := errors.Join(p.servers[2].UseGossip(fresh, false), p.servers[2].UseGossip(old, true)); err != nil {
		t.Fatal(err)
	}
	p.eventually("it is away", func() error {
		if p.alive("coordinator-2") {
			return errors.New("it is there")
		}
		return nil
	})
	if err := p.servers[2].UseGossip(fresh, true); err != nil {
		t.Fatal(err)
	}
	p.eventually("it is back", func() error {
		if !p.alive("coordinator-2") {
			return errors.New("it is not")
		}
		return nil
	})
}
