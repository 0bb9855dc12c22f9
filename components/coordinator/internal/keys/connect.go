package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"

	"cadre.dev/core/secret"
)

// connectSize is the number of derived bytes for the CA of Consul's service mesh: a number much
// larger than the order of P-256, so that its remainder is nearly uniform, and the mesh's UUID.
const connectSize = connectScalar + 16

const connectScalar = 48

// ConnectCA is the CA of Consul's service mesh, which signs the certificates of Envoys. ConnectCA
// is separate from CA: Consul has its key and signs with it, and its certificates open no Session.
type ConnectCA struct {
	clusterID string
	key       secret.Value // PEM
	root      *x509.Certificate
	pem       []byte
}

// newConnectCA makes the CA of a seed of connectSize bytes. Consul supports keys of P-256 and no
// Ed25519. The root is signed by RFC 6979, which has no randomness, so that equal seeds give equal
// bytes here too.
func newConnectCA(cluster, clusterID string, seed []byte) (*ConnectCA, error) {
	// 1 to n-1, as P-256 requires.
	most := new(big.Int).Sub(elliptic.P256().Params().N, big.NewInt(1))
	d := new(big.Int).SetBytes(seed[:connectScalar])
	d.Add(d.Mod(d, most), big.NewInt(1))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d.FillBytes(make([]byte, 32)))
	if err != nil {
		return nil, fmt.Errorf("make service mesh CA key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode service mesh CA key: %w", err)
	}
	// The identifier that Consul gives to keys; the certificates that it signs include it.
	id := sha256.Sum256(spki)
	out := &ConnectCA{clusterID: uuidFrom(seed[connectScalar:])}
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(id[:8]),
		Subject:               pkix.Name{CommonName: "cadre " + cluster + " service mesh CA", SerialNumber: clusterID},
		NotBefore:             caNotBefore,
		NotAfter:              caNotAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
		// Consul signs no other CA with it except a successor, which the old root cross-signs.
		MaxPathLen:     1,
		KeyUsage:       x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		SubjectKeyId:   id[:],
		AuthorityKeyId: id[:],
		URIs:           []*url.URL{{Scheme: "spiffe", Host: out.TrustDomain()}},
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign service mesh CA: %w", err)
	}
	if out.root, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read back service mesh CA: %w", err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode service mesh CA key: %w", err)
	}
	out.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	out.key = secret.New(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
	return out, nil
}

// ClusterID returns the UUID of the mesh in a new Consul. The UUID is no secret.
func (c *ConnectCA) ClusterID() string { return c.clusterID }

// TrustDomain returns the first part of the names of the mesh's services. A Consul that had a CA
// before keeps its own trust domain.
func (c *ConnectCA) TrustDomain() string { return c.clusterID + ".consul" }

// RootPEM returns the root's certificate.
func (c *ConnectCA) RootPEM() []byte { return c.pem }

// Key returns the root's key in PEM, for Consul alone.
func (c *ConnectCA) Key() secret.Value { return c.key }
