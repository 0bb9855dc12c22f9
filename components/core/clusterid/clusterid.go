// Package clusterid identifies the bootstrap of a cluster. A party that runs the coordinators' app
// can make a second set of coordinators with empty disks, with the same app keys and the same
// cluster name. The cluster ID, random at the first start, distinguishes the two sets: it is part
// of every key's derivation and of the CA's subject, and agents and operators pin it (GEN-02). It
// is a name, not a secret.
package clusterid

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Size is how many random bytes a cluster ID has.
const Size = 16

// Encode gives the one form of a cluster ID: 32 lower-case hex characters.
func Encode(random [Size]byte) string { return hex.EncodeToString(random[:]) }

// Check accepts only the output of Encode. Sixteen zeros are no cluster ID: no coordinator draws
// them.
func Check(id string) error {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != Size || hex.EncodeToString(raw) != id {
		return fmt.Errorf("cluster ID %.80q: want %d lower-case hex characters", id, 2*Size)
	}
	if [Size]byte(raw) == [Size]byte{} {
		return errors.New("cluster ID of zeros only: no coordinator draws it; take the ID from the cluster's context")
	}
	return nil
}

// Of gives the cluster ID that the subject of a cluster's CA names; "" if it names none.
func Of(cert *x509.Certificate) string {
	if cert == nil || !cert.IsCA || Check(cert.Subject.SerialNumber) != nil {
		return ""
	}
	return cert.Subject.SerialNumber
}

// OfPEM is Of the first block of a CA bundle.
func OfPEM(bundle []byte) string {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return ""
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return Of(cert)
}

// OfChain gives the cluster ID that a chain says it is of, for messages: nothing of the
// chain need be verified. "" if it names none.
func OfChain(certs []*x509.Certificate) string {
	for _, cert := range certs {
		if id := Of(cert); id != "" {
			return id
		}
	}
	return ""
}

// MismatchError reports a peer that proved another cluster ID than the pinned one.
type MismatchError struct {
	// The party Who proved the cluster ID Got; Pinned is the expected one, from the source Where.
	Who, Got, Pinned, Where string
	// WayOut is the operator's action if the other cluster is meant.
	WayOut string
}

// Error begins with the code (GEN-02).
func (e *MismatchError) Error() string {
	got := "cluster ID " + e.Got
	if e.Got == "" {
		got = "no cluster ID"
	}
	text := fmt.Sprintf("CLUSTER_MISMATCH: %s proves %s, but %s pins cluster ID %s: another set of coordinators of the same app", e.Who, got, e.Where, e.Pinned)
	if e.WayOut != "" {
		text += "; " + e.WayOut
	}
	return text
}
