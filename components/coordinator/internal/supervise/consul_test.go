package supervise_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/secret"
	"cadre.dev/store/storetest"
)

type guest struct{}

func (guest) GetKey(_ context.Context, path, _ string) ([]byte, error) {
	sum := sha256.Sum256([]byte(path))
	return sum[:], nil
}

// TestThreeServersFormAClusterFromDerivedKeys runs three real servers: they
// share nothing but derived keys, elect a leader under ACL default deny and
// mutual TLS, and become three voters.
func TestThreeServersFormAClusterFromDerivedKeys(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	binary := storetest.ConsulBinary(t)
	root := derived(t)
	vips := []netip.Addr{netip.MustParseAddr("127.50.0.1"), netip.MustParseAddr("127.50.0.2"), netip.MustParseAddr("127.50.0.3")}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	issuers := make([]*tokens.Issuer, 3)
	servers := make([]*supervise.Consul, 3)
	for n, vip := range vips {
		cfg := config(t, root, n, vip, vips, binary)
		server := supervise.New(cfg, func(now time.Time) ([]byte, []byte, error) {
			return root.CA().ConsulTLS(cfg.Node, cfg.Datacenter, false, now)
		}, slog.New(slog.DiscardHandler))
		servers[n] = server
		all.Go(func() {
			if err := server.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		var err error
		if issuers[n], err = tokens.New(cfg.Address(), root.ManagementToken().RevealString(), tokens.TTL); err != nil {
			t.Fatal(err)
		}
	}
	for n, issuer := range issuers {
		eventually(t, "agent token", func() error {
			token, err := issuer.Coordinator(ctx, "coordinator-"+string(rune('0'+n)), "boot", true)
			if err != nil {
				return err
			}
			return errors.Join(servers[n].SetAgentToken(secret.FromString(token.Secret)), issuer.UseAgentToken(ctx, token.Secret))
		})
	}
	eventually(t, "minimum quorum", func() error { return issuers[0].EnsureMinQuorum(ctx, 3) })
	client, err := consul.NewClient(&consul.Config{Address: "127.0.0.1:18501", Token: root.ManagementToken().RevealString()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "three voters", func() error { return voters(client, 3) })
	var giving sync.WaitGroup
	for n := range vips {
		giving.Go(func() {
			eventually(t, "the mesh's key", func() error { return ensureMeshCA(ctx, fmt.Sprintf("127.0.0.1:%d", 18500+n), root) })
		})
	}
	giving.Wait()
	was := meshIndex(t, client)
	for n := range vips {
		if err := ensureMeshCA(ctx, fmt.Sprintf("127.0.0.1:%d", 18500+n), root); err != nil {
			t.Error(err)
		}
	}
	if is := meshIndex(t, client); is != was {
		t.Errorf("the mesh's CA was set again: index %d, was %d", is, was)
	}
	for n := range vips {
		eventually(t, "the mesh's root at each server", func() error { return rootIs(ctx, fmt.Sprintf("127.0.0.1:%d", 18500+n), root) })
	}
	anonymous, err := consul.NewClient(&consul.Config{Address: "127.0.0.1:18501", Token: "anonymous-nobody"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := anonymous.KV().Get("cadre/v1/lease/term", nil); err == nil {
		t.Error("an unknown token may read")
	}
}

func config(t *testing.T, root *keys.Root, n int, vip netip.Addr, vips []netip.Addr, binary string) supervise.Config {
	dir := t.TempDir()
	gossip, err := root.Gossip(t.Context(), keys.FirstEpoch)
	if err != nil {
		t.Fatal(err)
	}
	cfg := supervise.Config{
		Binary: binary, DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"), Datacenter: "dc1",
		Node: "coordinator-" + string(rune('0'+n)), VIP: vip, Servers: 3, HTTPPort: 18500 + n, GRPCPort: 18600 + n,
		GossipKey: gossip, ManagementToken: root.ManagementToken(), CAPEM: root.CA().PEM(), ServiceMesh: mesh(root),
	}
	for _, other := range vips {
		if other != vip {
			cfg.Others = append(cfg.Others, other)
		}
	}
	return cfg
}

// meshIndex returns the index of the mesh's CA.
func meshIndex(t *testing.T, client *consul.Client) uint64 {
	t.Helper()
	have, _, err := client.Connect().CAGetConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	return have.ModifyIndex
}

func derived(t *testing.T) *keys.Root {
	t.Helper()
	root, err := keys.Derive(t.Context(), guest{}, "demo", "0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func issuer(t *testing.T, server storetest.ConsulServer) *tokens.Issuer {
	t.Helper()
	i, err := tokens.New(server.Addr, server.ManagementToken, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func mesh(root *keys.Root) supervise.MeshCA {
	return supervise.MeshCA{ClusterID: root.Connect().ClusterID(), Root: root.Connect().RootPEM()}
}

func voters(client *consul.Client, want int) error {
	raft, err := client.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return err
	}
	got := 0
	for _, s := range raft.Servers {
		if s.Voter {
			got++
		}
	}
	if got != want {
		return context.DeadlineExceeded
	}
	return nil
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.NewTimer(45 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}
