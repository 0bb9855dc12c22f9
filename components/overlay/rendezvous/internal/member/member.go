// Package member names who uses a rendezvous, and checks that they are who they
// say.
package member

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// Member is one Boot of a Slot: the owner of a mailbox, of credentials and of
// relay allocations. The zero Member is nobody.
type Member struct {
	ID   identity.ID
	Boot string
}

// Caller is a Member with what it showed on this connection.
type Caller struct {
	Member
	// Chain is DER, leaf first, to hand to those who want to write to it.
	Chain [][]byte
	// Expires is when the leaf does.
	Expires time.Time
}

var (
	// ErrNone reports a connection without a certificate.
	ErrNone = errors.New("no client certificate")
	// ErrUntrusted reports a certificate that leads to no known cluster CA, or
	// is no SVID.
	ErrUntrusted = errors.New("client certificate is not an SVID of a cluster known here")
)

// Authenticate proves the far side of a connection by the CA of the cluster
// that its certificate names. pool gives nil for a cluster that is not known.
func Authenticate(state *tls.ConnectionState, pool func(cluster string) *x509.CertPool) (Caller, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return Caller{}, ErrNone
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
	c := Caller{Member: Member{ID: who.ID, Boot: who.BootID}, Expires: who.Expires}
	for _, cert := range state.PeerCertificates {
		c.Chain = append(c.Chain, cert.Raw)
	}
	return c, nil
}
