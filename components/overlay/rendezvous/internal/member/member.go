// Package member identifies and authenticates the callers of a rendezvous.
package member

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
)

// Member is one Boot of a Slot: the owner of a mailbox, of credentials and of relay
// allocations. The zero Member is no member.
type Member struct {
	ID   identity.ID
	Boot string
}

// Caller is a Member with its certificates on this connection.
type Caller struct {
	Member
	// Chain is DER, leaf first, for members that write to this one: the certificates that
	// lead to the CA, within the bounds of the wire.
	Chain [][]byte
	// Expires is when the leaf does.
	Expires time.Time
}

var (
	// ErrNone reports a connection without a certificate.
	ErrNone = errors.New("no client certificate")
	// ErrUntrusted reports a certificate that leads to no known cluster CA, or
	// is no SVID.
	ErrUntrusted = errors.New("client certificate is not an SVID of a known cluster")
)

// Authenticate proves the far side of a connection by the CA of the cluster
// that its certificate names. pool gives nil for a cluster that is not known.
func Authenticate(state *tls.ConnectionState, pool func(cluster string) *x509.CertPool) (Caller, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return Caller{}, ErrNone
	}
	for _, c := range state.PeerCertificates {
		if len(c.Raw) > mailbox.MaxCertificate {
			return Caller{}, fmt.Errorf("%w: certificate of %d bytes, at most %d", ErrUntrusted, len(c.Raw), mailbox.MaxCertificate)
		}
	}
	leaf := state.PeerCertificates[0]
	if len(leaf.URIs) != 1 {
		return Caller{}, fmt.Errorf("%w: %d URI names, want exactly 1", ErrUntrusted, len(leaf.URIs))
	}
	// The name chooses the CA that must vouch for it; Verify checks both.
	claimed, err := identity.ParseID(leaf.URIs[0].String())
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	roots := pool(claimed.Cluster)
	if roots == nil {
		return Caller{}, fmt.Errorf("%w: no CA of cluster %s", ErrUntrusted, claimed.Cluster)
	}
	who, err := identity.Verify(*state, roots, claimed.Cluster, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	chain, err := vouched(state.PeerCertificates, roots)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Member: Member{ID: who.ID, Boot: who.BootID}, Expires: who.Expires, Chain: chain}, nil
}

// vouched returns the certificates that a receiver needs: the leaf, and the certificates
// from it to a root. Any other certificate would be data of the member's choice that the
// server passes on.
func vouched(shown []*x509.Certificate, roots *x509.CertPool) ([][]byte, error) {
	leaf := shown[0]
	chain := [][]byte{leaf.Raw}
	if len(shown) == 1 {
		return chain, nil
	}
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	paths, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	// All paths count: the receiver may know another root of the cluster than we.
	on := slices.Concat(paths...)
	for _, c := range shown[1:] {
		if slices.ContainsFunc(on, c.Equal) && !slices.ContainsFunc(chain, func(have []byte) bool { return bytes.Equal(have, c.Raw) }) {
			chain = append(chain, c.Raw)
		}
	}
	if len(chain) > mailbox.MaxChain {
		return nil, fmt.Errorf("%w: chain of %d certificates, at most %d", ErrUntrusted, len(chain), mailbox.MaxChain)
	}
	return chain, nil
}
