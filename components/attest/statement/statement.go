package statement

import (
	"fmt"
	"time"

	"cadre.dev/core/policy"
)

// The purpose tags. They are inside the encoding and in front of it in the digest.
const (
	agentTag       = "cadre-agent-statement"
	coordinatorTag = "cadre-coordinator-statement"
	sealingKeyTag  = "cadre-sealing-key-statement"
)

// NonceLife is how long a coordinator's nonce is valid. The nonce's expiry, as reported by the
// coordinator, shows the coordinator's clock.
const NonceLife = 60 * time.Second

// Agent is a Boot's assertion when it requests admission to a Slot.
type Agent struct {
	// Cluster, Group and Slot are names: lower-case letters, digits and '-',
	// 1 to 63 bytes, starting and ending with a letter or digit.
	Cluster, Group, Slot string
	// ClusterID is the cluster ID that the coordinator proved (core/clusterid).
	ClusterID string
	// AppID and InstanceID, 40 lower-case hex characters each.
	AppID, InstanceID string
	// ComposeHash, 64 lower-case hex characters.
	ComposeHash string
	// BootPublicKey is the DER SubjectPublicKeyInfo of the Boot's in-memory key.
	BootPublicKey []byte
	// Nonce is the coordinator's challenge, byte for byte; 16 to 256 bytes.
	Nonce []byte
	// Exporter is the TLS exporter value of this connection, 32 bytes.
	Exporter []byte
}

// Coordinator is a coordinator's assertion to an agent, before the agent sends any data of its own.
type Coordinator struct {
	Cluster string
	// ClusterID is the cluster ID that the coordinator serves (core/clusterid).
	ClusterID string
	AppID     string
	Slot      string
	// TLSPublicKey is the DER SubjectPublicKeyInfo of its certificate on this connection.
	TLSPublicKey []byte
	Exporter     []byte
	// PeerNonce is the agent's boot nonce, 16 to 256 bytes.
	PeerNonce []byte
	// CABundleSHA256 commits to the cluster CA that the agent will trust, 32 bytes.
	CABundleSHA256 []byte
}

// Encode returns the one encoding. It never fails: DecodeAgent rejects the encoding of a statement
// with fields out of bounds.
func (s Agent) Encode() []byte {
	return encode(agentTag, s.fields())
}

// ReportData is the required report data of a quote for this statement.
func (s Agent) ReportData() [64]byte { return digest(agentTag, s.Encode()) }

// Validate reports all fields that are out of bounds.
func (s Agent) Validate() error { return validate(s.fields()) }

// Policy is the part of the statement that Appraise compares with Claims.
func (s Agent) Policy() policy.Statement {
	return policy.Statement{
		Cluster: s.Cluster, Group: s.Group, Slot: s.Slot,
		AppID: s.AppID, InstanceID: s.InstanceID, ComposeHash: s.ComposeHash,
	}
}

// DecodeAgent accepts exactly the encodings that Encode makes. The error wraps ErrNoncanonical or
// ErrVersion.
func DecodeAgent(b []byte) (Agent, error) {
	var s Agent
	if err := decode(agentTag, b, s.fields()); err != nil {
		return Agent{}, fmt.Errorf("agent statement: %w", err)
	}
	return s, nil
}

// fields lists the fields in the order of the encoding.
func (s *Agent) fields() []field {
	return []field{
		name("cluster", &s.Cluster), clusterIDText("cluster_id", &s.ClusterID), name("group", &s.Group), name("slot", &s.Slot),
		hexText("app_id", &s.AppID, 40), hexText("instance_id", &s.InstanceID, 40),
		hexText("compose_hash", &s.ComposeHash, 64),
		octets("boot_public_key", &s.BootPublicKey, minKey, maxKey),
		octets("nonce", &s.Nonce, minNonce, maxNonce),
		octets("exporter", &s.Exporter, exporterSize, exporterSize),
	}
}

// Encode returns the one encoding, as Agent.Encode does.
func (s Coordinator) Encode() []byte { return encode(coordinatorTag, s.fields()) }

// ReportData is the required report data of a quote for this statement.
func (s Coordinator) ReportData() [64]byte { return digest(coordinatorTag, s.Encode()) }

// Validate reports all fields that are out of bounds.
func (s Coordinator) Validate() error { return validate(s.fields()) }

// DecodeCoordinator accepts exactly the encodings that Encode makes. The error wraps
// ErrNoncanonical or ErrVersion.
func DecodeCoordinator(b []byte) (Coordinator, error) {
	var s Coordinator
	if err := decode(coordinatorTag, b, s.fields()); err != nil {
		return Coordinator{}, fmt.Errorf("coordinator statement: %w", err)
	}
	return s, nil
}

func (s *Coordinator) fields() []field {
	return []field{
		name("cluster", &s.Cluster), clusterIDText("cluster_id", &s.ClusterID),
		hexText("app_id", &s.AppID, 40), name("slot", &s.Slot),
		octets("tls_public_key", &s.TLSPublicKey, minKey, maxKey),
		octets("exporter", &s.Exporter, exporterSize, exporterSize),
		octets("peer_nonce", &s.PeerNonce, minNonce, maxNonce),
		octets("ca_bundle_sha256", &s.CABundleSHA256, 32, 32),
	}
}
