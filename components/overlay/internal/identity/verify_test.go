package identity_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
)

// Neither another cluster's CA with our names is accepted, nor our CA with another
// cluster's names.
func TestTOK14_NoForeignTrustDomainIsAccepted(t *testing.T) {
	ours, theirs := identitytest.NewAuthority(t, "demo"), identitytest.NewAuthority(t, "prod")
	named := func(s string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{u}
		}
	}
	id := ours.ID("pg", "pg-0")
	for name, c := range map[string]struct {
		leaf *x509.Certificate
		want error
	}{
		"ours":                                {ours.Issue(t, id).Leaf, nil},
		"another trust domain under our CA":   {ours.Issue(t, id, named("spiffe://prod/pg/pg-0")).Leaf, identity.ErrMismatch},
		"our name under another cluster's CA": {theirs.Issue(t, id, named(id.String())).Leaf, identity.ErrUntrusted},
		"a trust domain below ours":           {ours.Issue(t, id, named("spiffe://x.demo/pg/pg-0")).Leaf, identity.ErrMismatch},
	} {
		_, err := identity.VerifyChain([]*x509.Certificate{c.leaf}, ours.Pool, "demo", x509.ExtKeyUsageClientAuth)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A revoked Boot stays revoked with another certificate of the same key, and every bit of
// a certificate has a single encoding.
func TestIDN12_ABootIsItsKeyHoweverItIsCertified(t *testing.T) {
	ca := identitytest.NewAuthority(t, "demo")
	id, key := ca.ID("pg", "pg-0"), identitytest.Key(t)
	first, again := ca.IssueFor(t, id, key).Leaf, ca.IssueFor(t, id, key, func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(0, 0, 1) }).Leaf
	if bytes.Equal(first.Raw, again.Raw) {
		t.Fatal("both certificates are the same")
	}
	if identity.BootID(first) != identity.BootID(again) || identity.BootID(first) == identity.BootID(ca.Issue(t, id).Leaf) {
		t.Error("a Boot is not its key")
	}
	for i := range first.Raw {
		raw := bytes.Clone(first.Raw)
		raw[i] ^= 1
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			continue
		}
		if _, err := identity.VerifyChain([]*x509.Certificate{cert}, ca.Pool, "demo", x509.ExtKeyUsageClientAuth); err == nil {
			t.Errorf("byte %d can be another one", i)
		}
	}
}
