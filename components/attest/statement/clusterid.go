package statement

import "fmt"

const clusterIDTag = "cadre-cluster-id-statement"

// ClusterID is a coordinator's assertion to another coordinator about the cluster ID that it knows.
type ClusterID struct {
	Cluster string
	// ClusterID that it knows (core/clusterid); "" while it knows none.
	ClusterID string
	AppID     string
	Slot      string
	// TLSPublicKey is the DER SubjectPublicKeyInfo of its certificate on this connection.
	TLSPublicKey []byte
	Exporter     []byte
	// PeerNonce is the asking coordinator's, 16 to 256 bytes.
	PeerNonce []byte
}

// Encode returns the one encoding, as Agent.Encode does.
func (s ClusterID) Encode() []byte { return encode(clusterIDTag, s.fields()) }

// ReportData is the required report data of a quote for this statement.
func (s ClusterID) ReportData() [64]byte { return digest(clusterIDTag, s.Encode()) }

// Validate reports all fields that are out of bounds.
func (s ClusterID) Validate() error { return validate(s.fields()) }

// DecodeClusterID accepts exactly the encodings that Encode makes. The error wraps ErrNoncanonical
// or ErrVersion.
func DecodeClusterID(b []byte) (ClusterID, error) {
	var s ClusterID
	if err := decode(clusterIDTag, b, s.fields()); err != nil {
		return ClusterID{}, fmt.Errorf("cluster ID statement: %w", err)
	}
	return s, nil
}

func (s *ClusterID) fields() []field {
	return []field{
		name("cluster", &s.Cluster), clusterIDOrNone("cluster_id", &s.ClusterID),
		hexText("app_id", &s.AppID, 40), name("slot", &s.Slot),
		octets("tls_public_key", &s.TLSPublicKey, minKey, maxKey),
		octets("exporter", &s.Exporter, exporterSize, exporterSize),
		octets("peer_nonce", &s.PeerNonce, minNonce, maxNonce),
	}
}
