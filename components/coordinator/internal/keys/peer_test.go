package keys_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/overlay"
)

// svid is the certificate that a coordinator of root issues to a Boot of that Slot.
func svid(t *testing.T, root *keys.Root, group, slot string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _, err := root.CA().SVID(key.Public(), keys.Subject{Group: group, Slot: slot}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Credentials of another cluster ID open no Session with a coordinator or a Peer. These credentials
// fail even with exactly the name and Boot of the peer map, and so do those of another cluster ID's
// coordinator.
func TestGEN02_IDN08_CredentialsOfAnotherClusterIDOpenNoSession(t *testing.T) {
	first, second := derive(t, "app", "demo"), deriveOf(t, "app", "demo", another)
	for _, server := range []overlay.ID{{Cluster: "demo", Group: keys.CoordinatorGroup, Slot: "coordinator-0"}, {Cluster: "demo", Group: "pg", Slot: "pg-1"}} {
		node, err := overlay.New(overlay.Config{Self: server, SelfVIP: netip.MustParseAddr("127.50.0.1"), Listen: "127.0.0.1:0", Gateway: overlay.Gateway{Domain: "gw.test"}})
		if err != nil {
			t.Fatal(err)
		}
		node.SetCredentials(overlay.Credentials{Certificate: svid(t, first, server.Group, server.Slot), Roots: first.CA().Pool()})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- node.Run(ctx) }()
		for node.ListenAddr() == nil {
			time.Sleep(time.Millisecond)
		}
		for _, caller := range []overlay.ID{{Cluster: "demo", Group: "pg", Slot: "pg-0"}, {Cluster: "demo", Group: keys.CoordinatorGroup, Slot: "coordinator-1"}} {
			for _, issuer := range []*keys.Root{first, second} {
				own := svid(t, issuer, caller.Group, caller.Slot)
				node.SetPeers([]overlay.Peer{{ID: caller, BootID: overlay.BootID(own.Leaf), VIP: netip.MustParseAddr("127.50.1.1"), Coordinator: caller.Group == keys.CoordinatorGroup}})
				err := greeted(t, node.ListenAddr().String(), own)
				if good := issuer == first; (err == nil) != good {
					t.Errorf("%s of cluster ID %s at %s of cluster ID %s: %v", caller, issuer.ClusterID(), server, first.ClusterID(), err)
				}
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// greeted opens a connection as a Peer does and waits for the answer to its certificate.
func greeted(t *testing.T, address string, own tls.Certificate) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"cadre-overlay/1"}, Certificates: []tls.Certificate{own}}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // only read
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, err = conn.Read(make([]byte, 1))
	return err
}
