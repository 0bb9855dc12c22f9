package keys_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"cadre.dev/coordinator/internal/keys"
)

// meshRoot reads the root of the service mesh and its key.
func meshRoot(t *testing.T, r *keys.Root) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	block, _ := pem.Decode(r.Connect().RootPEM())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(r.Connect().Key().Reveal())
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// The root has the same bytes on every coordinator and at every start, and differs for another
// cluster ID. The digest in this test detects a change of Go or of the template that would give the
// coordinators of one cluster two roots.
func TestTheMeshsRootIsTheSameBytesEverywhere(t *testing.T) {
	a := derive(t, "app", "demo").Connect()
	for range 3 {
		b := derive(t, "app", "demo").Connect()
		if !bytes.Equal(a.RootPEM(), b.RootPEM()) || !a.Key().Equal(b.Key()) || a.ClusterID() != b.ClusterID() {
			t.Fatal("two coordinators have two roots")
		}
	}
	sum := sha256.Sum256(a.RootPEM())
	if got, want := hex.EncodeToString(sum[:8]), "f3274e4e962c291c"; got != want {
		t.Errorf("the root is another one than before: %s, was %s", got, want)
	}
	for what, b := range map[string]*keys.Root{"app": derive(t, "other", "demo"), "cluster": derive(t, "app", "prod"), "cluster_id": deriveOf(t, "app", "demo", another)} {
		if bytes.Equal(a.RootPEM(), b.Connect().RootPEM()) || a.Key().Equal(b.Connect().Key()) || a.ClusterID() == b.Connect().ClusterID() {
			t.Errorf("another %s shares the mesh's root", what)
		}
	}
}

func TestTheMeshsRootIsAcceptedByConsul(t *testing.T) {
	r := derive(t, "app", "demo")
	cert, key := meshRoot(t, r)
	if _, err := uuid.Parse(r.Connect().ClusterID()); err != nil {
		t.Error(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	id := sha256.Sum256(spki)
	switch {
	case key.Curve != elliptic.P256(), !key.PublicKey.Equal(cert.PublicKey):
		t.Errorf("the key is of %v", key.Curve)
	case !cert.IsCA, cert.KeyUsage&x509.KeyUsageCertSign == 0, cert.KeyUsage&x509.KeyUsageDigitalSignature == 0, cert.MaxPathLen != 1:
		t.Errorf("certificate: %+v", cert)
	case len(cert.URIs) != 1, cert.URIs[0].String() != "spiffe://"+r.Connect().ClusterID()+".consul":
		t.Errorf("name: %v", cert.URIs)
	case !bytes.Equal(cert.SubjectKeyId, id[:]), cert.SerialNumber.Sign() <= 0:
		t.Errorf("identifier %x, want %x", cert.SubjectKeyId, id)
	case time.Until(cert.NotAfter) < 10*365*24*time.Hour:
		t.Errorf("it ends at %v", cert.NotAfter)
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		t.Error(err)
	}
}

// Consul has the mesh CA's key, and a certificate signed by it is no identity of a Boot.
func TestTOK14_ACertificateOfTheMeshsCAOpensNoSession(t *testing.T) {
	r := derive(t, "app", "demo")
	cert, key := meshRoot(t, r)
	now := time.Now()
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pg-0"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, cert, own.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: r.CA().Pool()}); err == nil {
		t.Error("the cluster's CA vouches for it")
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
		t.Error(err)
	}
}

// Values that contain the mesh's key do not print it.
func TestTOK07_TheMeshsKeyIsNotPrinted(t *testing.T) {
	r := derive(t, "app", "demo")
	_, key := meshRoot(t, r)
	raw, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprintf("%v %+v %#v", r.Connect(), *r.Connect(), *r.Connect()), fmt.Sprintf("%+v", *r)} {
		for _, canary := range []string{"EC PRIVATE KEY", hex.EncodeToString(raw), strings.Trim(fmt.Sprintf("%d", raw), "[]")} {
			if strings.Contains(out, canary) {
				t.Errorf("%q shows the key", out)
			}
		}
	}
}
