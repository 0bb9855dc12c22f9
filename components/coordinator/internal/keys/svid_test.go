package keys_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/keys"
)

func p256(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestIDN11_KeysAndTemplate: the key must be of the kind that Boots prove, and the caller controls
// no other part of the certificate.
func TestIDN11_KeysAndTemplate(t *testing.T) {
	ca := derive(t, "app", "demo").CA()
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err1 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	ed, _, err2 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	subject := keys.Subject{Group: "pg", Slot: "pg-0"}
	for name, key := range map[string]crypto.PublicKey{"RSA": small.Public(), "P-384": p384.Public(), "Ed25519": ed, "none": nil} {
		if _, _, err := ca.SVID(key, subject, time.Now()); !errors.Is(err, keys.ErrKeyForbidden) || !strings.Contains(err.Error(), "CSR_FORBIDDEN") {
			t.Errorf("%s: %v", name, err)
		}
	}
	now := time.Now()
	der, _, err := ca.SVID(p256(t).Public(), subject, now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case cert.IsCA, cert.KeyUsage != x509.KeyUsageDigitalSignature, len(cert.ExtKeyUsage) != 2, len(cert.UnknownExtKeyUsage) != 0,
		len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses) != 0, len(cert.URIs) != 1, len(cert.Subject.Organization) != 0:
		t.Errorf("certificate: %+v", cert)
	case now.Sub(cert.NotBefore) < keys.Backdate-time.Second:
		t.Errorf("not before %v: not back-dated", cert.NotBefore)
	}
}

// The issuer builds the name from labels with a single meaning.
func TestIDN10_IssuerBuildsTheNameItself(t *testing.T) {
	ca := derive(t, "app", "demo").CA()
	key := p256(t).Public()
	for _, bad := range []string{"", "PG-0", "pg/0", "pg%2F0", "..", "-pg", "pg-", "pg 0", "pg\x000", "pg.0", "pｇ", strings.Repeat("a", 64), "pg?x", "pg#x", "u@pg"} {
		for _, subject := range []keys.Subject{{Group: "pg", Slot: bad}, {Group: bad, Slot: "pg-0"}} {
			if der, _, err := ca.SVID(key, subject, time.Now()); err == nil {
				t.Errorf("%+v: a certificate of %d bytes", subject, len(der))
			}
		}
	}
}

// TestACoordinatorsCertificateNamesTheGateway: Consul's own tool verifies the name that it dials.
func TestACoordinatorsCertificateNamesTheGateway(t *testing.T) {
	identity, err := keys.NewIdentity(derive(t, "app", "demo").CA(), "coordinator-0", false)
	if err != nil {
		t.Fatal(err)
	}
	identity.AlsoNamed("app-7444s.gw.example.org", "-7444s.gw.example.org", "a b.example.org", "*.example.org", "")
	got, err := identity.Certificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if names := got.Leaf.DNSNames; len(names) != 2 || names[0] != keys.ServerName("demo") || names[1] != "app-7444s.gw.example.org" {
		t.Errorf("names %q", names)
	}
}

// Simulated certificates have the mark in their subject, those of coordinators too.
func TestSimulatedCertificatesHaveTheMark(t *testing.T) {
	root := derive(t, "app", "demo")
	for _, simulated := range []bool{false, true} {
		identity, err := keys.NewIdentity(root.CA(), "coordinator-0", simulated)
		if err != nil {
			t.Fatal(err)
		}
		own, err1 := identity.Certificate(time.Now())
		der, _, err2 := root.CA().SVID(p256(t).Public(), keys.Subject{Group: "pg", Slot: "pg-0", Simulated: simulated}, time.Now())
		rpc, _, err3 := root.CA().ConsulTLS("coordinator-0", "dc1", simulated, time.Now())
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(rpc)
		for name, der := range map[string][]byte{"coordinator": own.Certificate[0], "slot": der, "consul": block.Bytes} {
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(cert.Subject.Organization) == 1 && cert.Subject.Organization[0] == "SIMULATED"; got != simulated {
				t.Errorf("%s: subject %v, simulated %v", name, cert.Subject, simulated)
			}
		}
	}
}
