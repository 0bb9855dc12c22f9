package supervise_test

import (
	"context"
	"crypto/sha256"
	"errors"
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
	root, err := keys.Derive(t.Context(), guest{}, "demo", "0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
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
		Node: "coordinator-" + string(rune('0'+n)), VIP: vip, Servers: 3, HTTPPort: 18500 + n,
		GossipKey: gossip, ManagementToken: root.ManagementToken(), CAPEM: root.CA().PEM(),
	}
	for _, other := range vips {
		if other != vip {
			cfg.Others = append(cfg.Others, other)
		}
	}
	return cfg
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
