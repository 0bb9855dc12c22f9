package audit

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"
)

// SignedHead is a statement of the cluster CA about the chain at a time.
type SignedHead struct {
	Cluster   string `json:"cluster"`
	ClusterID string `json:"cluster_id"`
	Head      Head   `json:"head"`
	// At is the time of the signature.
	At time.Time `json:"at"`
	// Signature is an Ed25519 signature of Statement.
	Signature []byte `json:"signature,omitempty"`
}

// Statement is the signed text. It begins with a word, so it is no certificate, which the same key
// signs too.
func (s SignedHead) Statement() []byte {
	s.Signature, s.At, s.Head.At = nil, s.At.UTC(), s.Head.At.UTC()
	text, err := json.Marshal(s)
	if err != nil {
		return nil // no such value: every field can be encoded
	}
	return append([]byte("cadre/audit-head/v1\x00"), text...)
}

// maxAhead is how far the clock of the coordinator that signed may be behind that of another one,
// which wrote the last entry.
const maxAhead = 5 * time.Minute

// Check verifies the signature of the CA of the cluster with clusterID.
func (s SignedHead) Check(clusterID string, ca ed25519.PublicKey) error {
	switch {
	case s.ClusterID != clusterID:
		return fmt.Errorf("the head is of the cluster with the ID %.64q, and this cluster has %q", s.ClusterID, clusterID)
	case len(ca) != ed25519.PublicKeySize || !ed25519.Verify(ca, s.Statement(), s.Signature):
		return broken("the signature of the head is not of the cluster CA")
	case s.Head.At.After(s.At.Add(maxAhead)):
		return broken("the last entry has the time %s, after the signature of the head at %s", s.Head.At.Format(time.RFC3339), s.At.Format(time.RFC3339))
	}
	return nil
}
