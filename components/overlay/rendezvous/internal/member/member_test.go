package member

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"testing"

	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/mailbox"
)

func TestOnlyCertificatesThatLeadToTheCAAreKept(t *testing.T) {
	ca, other := identitytest.NewAuthority(t, "test.cadre"), identitytest.NewAuthority(t, "other.cadre")
	id := ca.ID("db", "db-0")
	pool := func(string) *x509.CertPool { return ca.Pool }
	state := func(certs ...*x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{Version: tls.VersionTLS13, PeerCertificates: certs}
	}
	good, junk := ca.Issue(t, id).Leaf, other.Issue(t, other.ID("db", "db-0")).Leaf
	root := ca.Root()
	got, err := Authenticate(state(good, junk, root), pool)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Chain) != 2 || !bytes.Equal(got.Chain[0], good.Raw) || !bytes.Equal(got.Chain[1], root.Raw) {
		t.Errorf("a chain of %d certificates is kept, want the leaf and the root", len(got.Chain))
	}

	long := func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: make([]byte, mailbox.MaxCertificate)}}
	}
	if _, err := Authenticate(state(ca.Issue(t, id, long).Leaf), pool); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a certificate that is too long: error %v, want %v", err, ErrUntrusted)
	}
	if _, err := Authenticate(state(good, ca.Issue(t, id, long).Leaf), pool); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a certificate behind it that is too long: error %v, want %v", err, ErrUntrusted)
	}
}
