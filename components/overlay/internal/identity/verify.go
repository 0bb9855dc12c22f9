package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUntrusted reports a certificate that does not lead to the cluster CA
	// or is not usable as an SVID (SVID_UNTRUSTED).
	ErrUntrusted = errors.New("untrusted certificate")
	// ErrMismatch reports a genuine certificate of another Peer than the expected one
	// (PEER_ID_MISMATCH).
	ErrMismatch = errors.New("peer identity mismatch")
	// ErrName reports a genuine certificate with names that are not an SVID's
	// (SVID_ID_INVALID). It is an ErrUntrusted.
	ErrName = fmt.Errorf("%w: SVID_ID_INVALID", ErrUntrusted)
	// ErrALPN reports a connection that speaks none of our protocols.
	ErrALPN = errors.New("unknown application protocol")
)

// maxChain bounds the verified chain: leaf, one intermediate, root.
const maxChain = 3

// Verified is the identity at the other end of a TLS connection.
type Verified struct {
	ID     ID
	BootID string
	// PublicKey is the certificate's SubjectPublicKeyInfo, DER.
	PublicKey string
	// Expires is when the certificate does.
	Expires time.Time
}

// Verify checks the certificates of the far side: a chain to roots that is
// good now for usage, exactly one URI name, of the strict grammar, in cluster.
// Server names do not count.
func Verify(state tls.ConnectionState, roots *x509.CertPool, cluster string, usage x509.ExtKeyUsage) (Verified, error) {
	if state.Version != tls.VersionTLS13 {
		return Verified{}, fmt.Errorf("%w: TLS version %#x, want 1.3", ErrUntrusted, state.Version)
	}
	return VerifyChain(state.PeerCertificates, roots, cluster, usage)
}

// VerifyChain is Verify for certificates alone. It does not prove the possession of the
// key.
func VerifyChain(certs []*x509.Certificate, roots *x509.CertPool, cluster string, usage x509.ExtKeyUsage) (Verified, error) {
	if roots == nil {
		// A nil pool would mean the system's roots.
		return Verified{}, fmt.Errorf("%w: no cluster CA is known", ErrUntrusted)
	}
	if len(certs) == 0 || len(certs) > maxChain {
		return Verified{}, fmt.Errorf("%w: %d certificates, want 1 to %d", ErrUntrusted, len(certs), maxChain)
	}
	leaf := certs[0]
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
	}); err != nil {
		return Verified{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	if leaf.IsCA {
		return Verified{}, fmt.Errorf("%w: a CA's certificate is no SVID", ErrUntrusted)
	}
	id, err := names(leaf)
	if err != nil {
		return Verified{}, err
	}
	if id.Cluster != cluster {
		return Verified{}, fmt.Errorf("%w: certificate of cluster %s, want %s", ErrMismatch, id.Cluster, cluster)
	}
	return Verified{ID: id, BootID: BootID(leaf), PublicKey: string(leaf.RawSubjectPublicKeyInfo), Expires: leaf.NotAfter}, nil
}

// Only certificates of coordinators carry a DNS name in addition to the URI: operators
// reach their API by it.
const coordinators = "coordinator"

// names returns the one name of an SVID (IDN-10).
func names(leaf *x509.Certificate) (ID, error) {
	if len(leaf.URIs) != 1 {
		return ID{}, fmt.Errorf("%w: %d URI names, want exactly 1", ErrName, len(leaf.URIs))
	}
	id, err := ParseID(leaf.URIs[0].String())
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrName, err)
	}
	if len(leaf.IPAddresses) > 0 || len(leaf.EmailAddresses) > 0 || len(leaf.DNSNames) > 0 && id.Group != coordinators {
		return ID{}, fmt.Errorf("%w: names in addition to the URI", ErrName)
	}
	return id, nil
}

// VerifyRenewed checks renewed certificates of a Peer that was authenticated before on
// the same connection: another name or Boot is ErrMismatch. The possession of the key was
// proved when the connection was made.
func VerifyRenewed(chain [][]byte, who Verified, roots *x509.CertPool, usage x509.ExtKeyUsage) (Verified, error) {
	certs := make([]*x509.Certificate, 0, len(chain))
	for _, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return Verified{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
		}
		certs = append(certs, cert)
	}
	got, err := VerifyChain(certs, roots, who.ID.Cluster, usage)
	if err != nil {
		return Verified{}, err
	}
	if got.ID != who.ID || got.BootID != who.BootID {
		return Verified{}, fmt.Errorf("%w: a certificate of boot %.12s of %s, on a session of boot %.12s of %s", ErrMismatch, got.BootID, got.ID, who.BootID, who.ID)
	}
	return got, nil
}

// VerifyBoot checks the certificate of a first contact: one certificate, signed
// by its own key, of a kind that Boots have. It proves possession, no name.
func VerifyBoot(state tls.ConnectionState) error {
	if state.Version != tls.VersionTLS13 {
		return fmt.Errorf("%w: TLS version %#x, want 1.3", ErrUntrusted, state.Version)
	}
	if n := len(state.PeerCertificates); n != 1 {
		return fmt.Errorf("%w: first contact with %d certificates, want exactly 1", ErrUntrusted, n)
	}
	cert := state.PeerCertificates[0]
	switch key := cert.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return fmt.Errorf("%w: boot key on curve %s, want P-256", ErrUntrusted, key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("%w: boot key of kind %T, want P-256 or Ed25519", ErrUntrusted, key)
	}
	if err := cert.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature); err != nil {
		return fmt.Errorf("%w: boot certificate is not signed by its own key: %w", ErrUntrusted, err)
	}
	return nil
}
