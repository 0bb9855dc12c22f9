package secrets_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

type guest struct{}

func (guest) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	mac := hmac.New(sha256.New, []byte("app"))
	mac.Write([]byte(path + "|" + purpose))
	return mac.Sum(nil), nil
}

// pool is a real Consul of three servers, in its own network.
type pool struct {
	t       *testing.T
	root    *keys.Root
	binary  string
	servers []*supervise.Consul
	vips    []netip.Addr
	store   *store.Consul
	views   *view.Watcher
	client  *consul.Client
	all     sync.WaitGroup
	log     *slog.Logger
}

const firstPort = 18500

func newPool(t *testing.T) *pool {
	root, err := keys.Derive(t.Context(), guest{}, "demo", "0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, root: root, binary: storetest.ConsulBinary(t), log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
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
		Node: fmt.Sprintf("coordinator-%d", n), VIP: p.vips[n], Servers: 3, HTTPPort: firstPort + n, GRPCPort: firstPort + 100 + n, GossipKey: gossip,
		ManagementToken: p.root.ManagementToken(), CAPEM: p.root.CA().PEM(),
		ServiceMesh: supervise.MeshCA{ClusterID: p.root.Connect().ClusterID(), Root: p.root.Connect().RootPEM()},
	}
	for _, other := range p.vips {
		if other != cfg.VIP {
			cfg.Others = append(cfg.Others, other)
		}
	}
	server := supervise.New(cfg, func(now time.Time) ([]byte, []byte, error) {
		return p.root.CA().ConsulTLS(cfg.Node, "dc1", true, now)
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

// lead runs a leader until ctx ends, and then releases the Lease.
func (p *pool) lead(ctx context.Context, name string, failpoint func(string)) (done chan struct{}) {
	p.t.Helper()
	keyring, err := secrets.NewKeyring(fmt.Sprintf("127.0.0.1:%d", firstPort), p.root.ManagementToken())
	if err != nil {
		p.t.Fatal(err)
	}
	r := secrets.NewRotator(secrets.RotatorConfig{
		Keys: p.root, Keyring: keyring, Store: p.store, Views: p.views,
		Now: time.Now, Failpoint: failpoint, Log: p.log,
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
	op, err := store.Put(store.RotateKey(store.ClusterSecrets, store.GossipSecret), store.RotateRequest{
		Group: store.ClusterSecrets, Name: store.GossipSecret, Reason: reason, By: "operator", At: time.Now().UTC(),
	}, 0)
	if err == nil {
		err = p.store.Commit(p.t.Context(), op)
	}
	if err != nil {
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

// oneKey returns nil when every member has exactly the key of epoch.
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

// watch writes and checks the members constantly until it is stopped. It counts failed writes and
// members that dropped out.
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

// TOK-10 on real Consul with three servers: no server drops out during a rotation, and another
// leader finishes it after a crash at any step.
func TestTOK10_GossipKeyRotatesUnderLoadAndAcrossCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul servers")
	}
	if !testnet.Isolated(t) {
		return
	}
	p := newPool(t)
	everybody := []string{"coordinator-0", "coordinator-1", "coordinator-2"}
	for _, name := range everybody {
		p.eventually(name+" is a member", func() error {
			if !p.alive(name) {
				return errors.New("it is not")
			}
			return nil
		})
	}

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
}

// A server that missed a rotation joins again with the key in force.
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
	// It starts with its first key, which is not in use any more.
	old, err := p.root.Gossip(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := p.root.Gossip(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	// The first call does not change the file: the server began with this key.
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
