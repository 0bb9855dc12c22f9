package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// TestTOK14_TheCAsSignatureMakesNoCA: a certificate of the CA in the wrong hands gives its holder
// one name and no CA.
func TestTOK14_TheCAsSignatureMakesNoCA(t *testing.T) {
	ca, err := newCA("demo", "0123456789abcdef0123456789abcdef", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	read := func(der []byte, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	now, betweenKey := time.Now(), key()
	between := read(ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "between"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1},
	}, betweenKey.Public()))
	name := &url.URL{Scheme: "spiffe", Host: "demo", Path: "/pg/pg-0"}
	template := leaf("pg-0", false, now)
	template.SerialNumber, template.URIs = big.NewInt(1), []*url.URL{name}
	below := read(x509.CreateCertificate(rand.Reader, template, between, key().Public(), betweenKey))
	der, _, err := ca.SVID(key().Public(), Subject{Group: "pg", Slot: "pg-0"}, now)
	direct := read(der, err)
	for what, c := range map[string]struct {
		cert *x509.Certificate
		good bool
	}{"an SVID": {direct, true}, "a certificate of a CA below the CA": {below, false}} {
		pool := x509.NewCertPool()
		pool.AddCert(between)
		_, err := c.cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), Intermediates: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != c.good {
			t.Errorf("%s: %v", what, err)
		}
	}
}
