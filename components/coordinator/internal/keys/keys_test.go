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
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"cadre.dev/coordinator/internal/keys"
	clusterid "cadre.dev/core/clusterid"
	"cadre.dev/core/secret"
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
	return deriveOf(t, g, cluster, clusterID)
}

// clusterID and another are two cluster IDs.
const (
	clusterID = "0123456789abcdef0123456789abcdef"
	another   = "fedcba9876543210fedcba9876543210"
)

func deriveOf(t *testing.T, g guest, cluster, id string) *keys.Root {
	t.Helper()
	root, err := keys.Derive(t.Context(), g, cluster, id)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func gossip(t *testing.T, r *keys.Root, epoch uint32) secret.Value {
	t.Helper()
	key, err := r.Gossip(t.Context(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(key.RevealString()); err != nil || len(raw) != 32 {
		t.Fatalf("gossip key: %d bytes, %v; Consul takes 32 in base64", len(raw), err)
	}
	return key
}

func workload(t *testing.T, r *keys.Root, group, name string, epoch uint32) secret.Value {
	t.Helper()
	value, err := r.Secret(t.Context(), group, name, epoch, 24)
	if err != nil || value.Len() != 24 {
		t.Fatalf("secret: %d bytes, %v", value.Len(), err)
	}
	return value
}

func TestCoordinatorsOfOneAppShareEverything(t *testing.T) {
	a, b := derive(t, "app", "demo"), derive(t, "app", "demo")
	if !bytes.Equal(a.CA().PEM(), b.CA().PEM()) {
		t.Error("CA certificates differ")
	}
	if !gossip(t, a, 3).Equal(gossip(t, b, 3)) || !a.ManagementToken().Equal(b.ManagementToken()) || !bytes.Equal(a.NonceKey(), b.NonceKey()) ||
		!workload(t, a, "pg", "superuser", 2).Equal(workload(t, b, "pg", "superuser", 2)) {
		t.Error("derived keys differ")
	}
	if _, err := uuid.Parse(a.ManagementToken().RevealString()); err != nil {
		t.Errorf("management token: %v", err)
	}
}

// TestGEN02_IDN08_AnotherAppClusterOrClusterIDSharesNothing: a second set of coordinators of the
// same app and cluster has no key of the first.
func TestGEN02_IDN08_AnotherAppClusterOrClusterIDSharesNothing(t *testing.T) {
	a := derive(t, "app", "demo")
	for _, b := range []*keys.Root{derive(t, "other", "demo"), derive(t, "app", "prod"), deriveOf(t, "app", "demo", another)} {
		if bytes.Equal(a.NonceKey(), b.NonceKey()) || workload(t, a, "pg", "superuser", 1).Equal(workload(t, b, "pg", "superuser", 1)) {
			t.Error("the key of challenges or a workload's secret is shared")
		}
		if bytes.Equal(a.CA().PEM(), b.CA().PEM()) || gossip(t, a, 1).Equal(gossip(t, b, 1)) || a.ManagementToken().Equal(b.ManagementToken()) {
			t.Error("material is shared")
		}
	}
}

// TOK-10: each epoch of each purpose is a key of its own.
func TestTOK10_PurposesAndEpochsAreIndependent(t *testing.T) {
	r := derive(t, "app", "demo")
	values := map[string]secret.Value{
		"gossip 1": gossip(t, r, 1), "gossip 2": gossip(t, r, 2), "gossip 11": gossip(t, r, 11),
		"superuser 1": workload(t, r, "pg", "superuser", 1), "superuser 2": workload(t, r, "pg", "superuser", 2),
		"replication 1": workload(t, r, "pg", "replication", 1), "other group": workload(t, r, "app", "superuser", 1),
		"a group of that name": workload(t, r, "cluster", "gossip", 1),
		"management":           r.ManagementToken(),
	}
	for a, x := range values {
		for b, y := range values {
			if a != b && x.Equal(y) {
				t.Errorf("%s and %s are the same", a, b)
			}
		}
	}
	if _, err := r.Gossip(t.Context(), 0); err == nil {
		t.Error("there is a key of epoch 0")
	}
	if got := keys.Path("demo", clusterID, keys.PurposeGossip, 7); got != "cadre/v1/demo/"+clusterID+"/gossip/7" {
		t.Errorf("path = %s", got)
	}
}

// TOK-07: values that contain keys print none.
func TestTOK07_RootPrintsNoKey(t *testing.T) {
	r := derive(t, "app", "demo")
	for _, out := range []string{fmt.Sprintf("%v %+v %#v", r, r, *r), fmt.Sprint(r.ManagementToken()), fmt.Sprintf("%v %+v %#v", r.CA(), *r.CA(), *r.CA())} {
		for _, canary := range []string{r.ManagementToken().RevealString(), string(r.NonceKey()), fmt.Sprintf("%x", r.NonceKey()), strings.Trim(fmt.Sprintf("%d", r.NonceKey()), "[]")} {
			if strings.Contains(out, canary) {
				t.Errorf("%q shows a key", out)
			}
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

func TestGEN04_OnlyCoordinatorsGetTheServerName(t *testing.T) {
	ca := derive(t, "app", "demo").CA()
	certPEM, _, err := ca.ConsulTLS("n", "dc1", false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.DNSNames[0] != "server.dc1.consul" || len(cert.URIs) != 0 {
		t.Errorf("names %v %v", cert.DNSNames, cert.URIs)
	}
	der, _, err := ca.SVID(p256(t).Public(), keys.Subject{Group: "pg", Slot: "pg-0"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil || len(cert.DNSNames) != 0 {
		t.Errorf("a slot's names: %v, %v", cert.DNSNames, err)
	}
}

// counting is a guest agent that counts its calls.
type counting struct {
	guest
	calls int
}

func (c *counting) GetKey(ctx context.Context, path, purpose string) ([]byte, error) {
	c.calls++
	return c.guest.GetKey(ctx, path, purpose)
}

// The guest agent is called once for a key that all Boots need, and again for another epoch or
// size.
func TestKeysInUseAreDerivedOnce(t *testing.T) {
	g := &counting{guest: "app"}
	r, err := keys.Derive(t.Context(), g, "demo", clusterID)
	if err != nil {
		t.Fatal(err)
	}
	g.calls = 0
	first := workload(t, r, "pg", "superuser", 1)
	if again := workload(t, r, "pg", "superuser", 1); !again.Equal(first) || g.calls != 1 {
		t.Errorf("asked %d times, the same: %t", g.calls, again.Equal(first))
	}
	if next := workload(t, r, "pg", "superuser", 2); next.Equal(first) || g.calls != 2 {
		t.Errorf("another epoch: asked %d times, the same: %t", g.calls, next.Equal(first))
	}
	if back := workload(t, r, "pg", "superuser", 1); !back.Equal(first) {
		t.Error("the first epoch has another key now")
	}
}

// The CA's subject includes the cluster ID, so that a caller rejected by it can see the reason.
func TestGEN02_TheCAsSubjectNamesTheClusterID(t *testing.T) {
	for _, id := range []string{clusterID, another} {
		block, _ := pem.Decode(deriveOf(t, "app", "demo", id).CA().PEM())
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || clusterid.Of(cert) != id {
			t.Errorf("subject %v, %v", cert.Subject, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("0", 32), strings.ToUpper(another), another + "/", "../" + another} {
		if _, err := keys.Derive(t.Context(), guest("app"), "demo", bad); err == nil {
			t.Errorf("keys were derived for cluster ID %q", bad)
		}
	}
}

// SVIDs of another cluster ID are rejected by a verifier with the first CA.
func TestGEN02_IDN08_SVIDsOfAnotherClusterIDAreRefused(t *testing.T) {
	a, b := derive(t, "app", "demo"), deriveOf(t, "app", "demo", another)
	for _, c := range []struct {
		issuer *keys.Root
		good   bool
	}{{a, true}, {b, false}} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, _, err := c.issuer.CA().SVID(key.Public(), keys.Subject{Group: "pg", Slot: "pg-0"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: a.CA().Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); (err == nil) != c.good {
			t.Errorf("of cluster ID %s: %v", c.issuer.ClusterID(), err)
		}
	}
}
