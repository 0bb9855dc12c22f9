package keys_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/uuid"

	"cadre.dev/coordinator/internal/keys"
)

// guest derives app keys as a key service does: same app, same path, same key.
type guest string

func (g guest) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	mac := hmac.New(sha256.New, []byte(g))
	mac.Write([]byte(path + "|" + purpose))
	return mac.Sum(nil), nil
}

func derive(t *testing.T, g guest, cluster string) *keys.Root {
	t.Helper()
	root, err := keys.Derive(t.Context(), g, cluster)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestCoordinatorsOfOneAppShareEverything(t *testing.T) {
	a, b := derive(t, "app", "demo"), derive(t, "app", "demo")
	if !bytes.Equal(a.CA().PEM(), b.CA().PEM()) {
		t.Error("CA certificates differ")
	}
	if a.GossipKey() != b.GossipKey() || a.ManagementToken() != b.ManagementToken() || !bytes.Equal(a.NonceKey(), b.NonceKey()) {
		t.Error("derived keys differ")
	}
	if _, err := uuid.Parse(a.ManagementToken()); err != nil {
		t.Errorf("management token: %v", err)
	}
	s1, err1 := a.Secret(t.Context(), "pg", "superuser")
	s2, err2 := b.Secret(t.Context(), "pg", "superuser")
	s3, err3 := b.Secret(t.Context(), "pg", "replication")
	if err1 != nil || err2 != nil || err3 != nil || s1 != s2 || s1 == s3 {
		t.Errorf("secrets: %q %q %q", s1, s2, s3)
	}
}

func TestAnotherAppOrClusterSharesNothing(t *testing.T) {
	a := derive(t, "app", "demo")
	for _, b := range []*keys.Root{derive(t, "other", "demo"), derive(t, "app", "prod")} {
		if bytes.Equal(a.CA().PEM(), b.CA().PEM()) || a.GossipKey() == b.GossipKey() || a.ManagementToken() == b.ManagementToken() {
			t.Error("material is shared")
		}
	}
}

func TestSVIDNamesExactlyOneSlot(t *testing.T) {
	root := derive(t, "app", "demo")
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	now := time.Now()
	der, until, err := root.CA().SVID(key.Public(), keys.Subject{Group: "pg", Slot: "pg-0"}, now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].String() != "spiffe://demo/pg/pg-0" || len(cert.DNSNames) != 0 {
		t.Errorf("names: %v %v", cert.URIs, cert.DNSNames)
	}
	if got := until.Sub(now); got != keys.LeafTTL {
		t.Errorf("validity %v, want %v", got, keys.LeafTTL)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: root.CA().Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("verify: %v", err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: derive(t, "other", "demo").CA().Pool()}); err == nil {
		t.Error("another cluster's CA accepts it")
	}
}

func TestOnlyCoordinatorsGetTheServerName(t *testing.T) {
	ca := derive(t, "app", "demo").CA()
	for role, want := range map[keys.ConsulRole]string{keys.ConsulServer: "server.dc1.consul", keys.ConsulClient: "client.dc1.consul"} {
		certPEM, _, err := ca.ConsulTLS(role, "n", "dc1", false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(certPEM)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if cert.DNSNames[0] != want || len(cert.URIs) != 0 {
			t.Errorf("%s: %v %v", role, cert.DNSNames, cert.URIs)
		}
	}
}
