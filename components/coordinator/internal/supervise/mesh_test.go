package supervise_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/supervise"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/secret"
	"cadre.dev/store/storetest"
)

// rootIs returns nil when the server at addr serves root's mesh CA as the one in use, from its own
// state.
func rootIs(ctx context.Context, addr string, root *keys.Root) error {
	have, err := roots(ctx, addr, root.ManagementToken().RevealString())
	if err != nil {
		return err
	}
	for _, one := range have.Roots {
		if one.Active && strings.TrimSpace(one.RootCertPEM) == strings.TrimSpace(string(root.Connect().RootPEM())) {
			return nil
		}
	}
	return fmt.Errorf("%d roots, and the one in use is another", len(have.Roots))
}

func ensureMeshCA(ctx context.Context, addr string, root *keys.Root) error {
	return supervise.EnsureMeshCA(ctx, addr, root.ManagementToken(), mesh(root), root.Connect().Key())
}

func roots(ctx context.Context, addr, token string) (*consul.CARootList, error) {
	client, err := consul.NewClient(&consul.Config{Address: addr, Token: token})
	if err != nil {
		return nil, err
	}
	have, _, err := client.Connect().CARoots((&consul.QueryOptions{AllowStale: true}).WithContext(ctx))
	return have, err
}

// TestTheMeshBeginsWithTheDerivedRoot: the mesh has the derived name, also after a restart. No
// answer of Consul contains its key.
func TestTheMeshBeginsWithTheDerivedRoot(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	root := derived(t)
	vip := netip.MustParseAddr("127.50.0.1")
	cfg := config(t, root, 0, vip, []netip.Addr{vip}, storetest.ConsulBinary(t))
	cfg.Servers = 1
	for n := range 2 {
		stop := run(t, cfg, root)
		if n == 0 {
			// The root exists before its key, so Consul never generated another root.
			eventually(t, "root", func() error { return rootIs(t.Context(), cfg.Address(), root) })
			if life, err := leafLife(t.Context(), cfg.Address(), root, "web", root.Connect().RootPEM()); err == nil {
				t.Errorf("a certificate for %v without the key", life)
			}
			eventually(t, "the key", func() error { return ensureMeshCA(t.Context(), cfg.Address(), root) })
		}
		eventually(t, "root", func() error { return rootIs(t.Context(), cfg.Address(), root) })
		have, err := roots(t.Context(), cfg.Address(), root.ManagementToken().RevealString())
		if err != nil || len(have.Roots) != 1 || have.TrustDomain != root.Connect().TrustDomain() {
			t.Errorf("roots %+v, %v; want one, of %s", have, err, root.Connect().TrustDomain())
		}
		if err := ensureMeshCA(t.Context(), cfg.Address(), root); err != nil {
			t.Errorf("once more: %v", err)
		}
		life, err := leafLife(t.Context(), cfg.Address(), root, "web", root.Connect().RootPEM())
		if err != nil || life > supervise.MeshLeafTTL {
			t.Errorf("a certificate of the mesh: %v, for %v", err, life)
		}
		_, key, _ := strings.Cut(root.Connect().Key().RevealString(), "\n")
		if text := page(t, cfg.Address()+"/v1/agent/self", root); strings.Contains(text, key[:40]) {
			t.Error("Consul's own configuration is shown with the key in it")
		}
		stop()
	}
}

// TestAMeshWithARootOfItsOwnIsGivenTheDerivedOne: certificates of the old root and of the new one
// are valid for clients that know either root, and the mesh keeps its name.
func TestAMeshWithARootOfItsOwnIsGivenTheDerivedOne(t *testing.T) {
	server := storetest.StartConsulACL(t)
	root := derived(t)
	before, err := roots(t.Context(), server.Addr, server.ManagementToken)
	if err != nil {
		t.Fatal(err)
	}
	old := before.Roots[0]
	if _, err := leaf(t.Context(), server.Addr, server.ManagementToken, "web", []byte(old.RootCertPEM)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := supervise.EnsureMeshCA(t.Context(), server.Addr, secret.FromString(server.ManagementToken), mesh(root), root.Connect().Key()); err != nil {
			t.Fatal(err)
		}
	}
	after, err := roots(t.Context(), server.Addr, server.ManagementToken)
	if err != nil || len(after.Roots) != 2 || after.TrustDomain != before.TrustDomain {
		t.Fatalf("roots %+v, %v; want the old and the new one", after, err)
	}
	for _, one := range after.Roots {
		if mine := one.ID != old.ID; mine != one.Active {
			t.Errorf("root %s is in use: %t", one.Name, one.Active)
		}
	}
	for name, believed := range map[string][]byte{"the new root": root.Connect().RootPEM(), "the old root": []byte(old.RootCertPEM)} {
		eventually(t, "a certificate that "+name+" vouches for", func() error {
			life, err := leaf(t.Context(), server.Addr, server.ManagementToken, "web2", believed)
			if err == nil && life > supervise.MeshLeafTTL {
				t.Errorf("it lives for %v", life)
			}
			return err
		})
	}
}

// TestTOK06_OperatorsDoNotReadTheMeshsKey: the operators' token has the most rights of all issued
// tokens, and Consul shows its CA's configuration to tokens that may write it.
func TestTOK06_OperatorsDoNotReadTheMeshsKey(t *testing.T) {
	server := storetest.StartConsulACL(t)
	root := derived(t)
	if err := supervise.EnsureMeshCA(t.Context(), server.Addr, secret.FromString(server.ManagementToken), mesh(root), root.Connect().Key()); err != nil {
		t.Fatal(err)
	}
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := issuer(t, server).EnsureOperator(t.Context(), operator, []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	client, err := consul.NewClient(&consul.Config{Address: server.Addr, Token: operator})
	if err != nil {
		t.Fatal(err)
	}
	have, _, err := client.Connect().CAGetConfig(nil)
	if status, is := errors.AsType[consul.StatusError](err); !is || status.Code != http.StatusForbidden {
		t.Errorf("an operator reads %v, %v", have, err)
	}
}

// leafLife makes Consul issue a certificate and verifies it with believed alone.
func leafLife(ctx context.Context, addr string, root *keys.Root, service string, believed []byte) (time.Duration, error) {
	return leaf(ctx, addr, root.ManagementToken().RevealString(), service, believed)
}

func leaf(ctx context.Context, addr, token, service string, believed []byte) (time.Duration, error) {
	client, err := consul.NewClient(&consul.Config{Address: addr, Token: token})
	if err != nil {
		return 0, err
	}
	got, _, err := client.Agent().ConnectCALeaf(service, (&consul.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return 0, err
	}
	pools := [2]*x509.CertPool{x509.NewCertPool(), x509.NewCertPool()}
	pools[0].AppendCertsFromPEM(believed)
	block, rest := pem.Decode([]byte(got.CertPEM))
	pools[1].AppendCertsFromPEM(rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return 0, err
	}
	_, err = cert.Verify(x509.VerifyOptions{Roots: pools[0], Intermediates: pools[1], KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return cert.NotAfter.Sub(cert.NotBefore), err
}

func page(t *testing.T, url string, root *keys.Root) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", root.ManagementToken().RevealString())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(text)
}

// run runs a server until the returned function is called.
func run(t *testing.T, cfg supervise.Config, root *keys.Root) (stop func()) {
	t.Helper()
	server := supervise.New(cfg, func(now time.Time) ([]byte, []byte, error) {
		return root.CA().ConsulTLS(cfg.Node, cfg.Datacenter, false, now)
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
