package statement

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	batchTag = "cadre-coordinator-batch"
	leafTag  = "cadre-coordinator-leaf"
)

// MaxBatch is how many exchanges one quote may serve, and maxDepth the longest
// path from one of them to the root.
const (
	maxDepth = 10
	MaxBatch = 1 << maxDepth
)

// The first byte of every hashed node is its type, so that no inner node can be shown as an
// exchange and no exchange as an inner node.
const (
	nodeLeaf byte = iota
	nodeInner
	nodeEmpty
)

// Exchange is the part of a coordinator's assertion that differs from agent to agent.
type Exchange struct {
	// Exporter is the TLS exporter value of the connection, 32 bytes.
	Exporter []byte
	// PeerNonce is the agent's boot nonce, 16 to 256 bytes.
	PeerNonce []byte
}

// Batch is the statement in one quote of a coordinator for all agents that wait for one: a quote
// takes a second on real hardware, and agents come by the hundred. It commits to the exchanges by
// the root of a tree over them; each agent gets its path and checks its own Exchange, built from
// its own values.
type Batch struct {
	Cluster string
	// ClusterID is the cluster ID that the coordinator serves (core/clusterid).
	ClusterID string
	AppID     string
	Slot      string
	// TLSPublicKey is the DER SubjectPublicKeyInfo of its certificate on all these
	// connections.
	TLSPublicKey []byte
	// Root of the tree over the exchanges, 32 bytes.
	Root []byte
	// CABundleSHA256 commits to the cluster CA that the agents will trust, 32 bytes.
	CABundleSHA256 []byte
}

// Encode returns the one encoding, as Agent.Encode does.
func (s Batch) Encode() []byte { return encode(batchTag, s.fields()) }

// ReportData is the required report data of a quote for this statement.
func (s Batch) ReportData() [64]byte { return digest(batchTag, s.Encode()) }

// Validate reports all fields that are out of bounds.
func (s Batch) Validate() error { return validate(s.fields()) }

// DecodeBatch accepts exactly the encodings that Encode makes. The error wraps ErrNoncanonical or
// ErrVersion.
func DecodeBatch(b []byte) (Batch, error) {
	var s Batch
	if err := decode(batchTag, b, s.fields()); err != nil {
		return Batch{}, fmt.Errorf("coordinator statement: %w", err)
	}
	return s, nil
}

func (s *Batch) fields() []field {
	return []field{
		name("cluster", &s.Cluster), clusterIDText("cluster_id", &s.ClusterID),
		hexText("app_id", &s.AppID, 40), name("slot", &s.Slot),
		octets("tls_public_key", &s.TLSPublicKey, minKey, maxKey),
		octets("root", &s.Root, sha256.Size, sha256.Size),
		octets("ca_bundle_sha256", &s.CABundleSHA256, sha256.Size, sha256.Size),
	}
}

// Commits reports whether the batch commits to e as number index, by the path of
// siblings from e's leaf to the root.
func (s Batch) Commits(e Exchange, index uint32, path [][]byte) bool {
	if len(path) > maxDepth || uint64(index) >= 1<<len(path) {
		return false
	}
	node := e.leaf()
	for _, sibling := range path {
		if len(sibling) != sha256.Size {
			return false
		}
		if index&1 == 0 {
			node = inner(node, [sha256.Size]byte(sibling))
		} else {
			node = inner([sha256.Size]byte(sibling), node)
		}
		index >>= 1
	}
	return subtle.ConstantTimeCompare(node[:], s.Root) == 1
}

// Gather makes the tree over 1 to MaxBatch exchanges. It returns the root, and for each exchange
// the path that Commits needs in addition to its index.
func Gather(exchanges []Exchange) (root []byte, paths [][][]byte, err error) {
	if n := len(exchanges); n == 0 || n > MaxBatch {
		return nil, nil, fmt.Errorf("gather exchanges: %d, must be 1 to %d", n, MaxBatch)
	}
	depth := bits.Len(uint(len(exchanges) - 1))
	level := make([][sha256.Size]byte, 1<<depth)
	for i := range level {
		if i < len(exchanges) {
			level[i] = exchanges[i].leaf()
		} else {
			level[i] = sha256.Sum256([]byte{nodeEmpty})
		}
	}
	paths = make([][][]byte, len(exchanges))
	for height := range depth {
		for i := range exchanges {
			sibling := level[(i>>height)^1]
			paths[i] = append(paths[i], sibling[:])
		}
		above := make([][sha256.Size]byte, len(level)/2)
		for i := range above {
			above[i] = inner(level[2*i], level[2*i+1])
		}
		level = above
	}
	return level[0][:], paths, nil
}

// leaf is SHA-256(0x00 || tag || each field as in an encoding).
func (e Exchange) leaf() [sha256.Size]byte {
	b := appendPart([]byte{nodeLeaf}, []byte(leafTag))
	for _, part := range [][]byte{e.Exporter, e.PeerNonce} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

func inner(left, right [sha256.Size]byte) [sha256.Size]byte {
	b := append([]byte{nodeInner}, left[:]...)
	return sha256.Sum256(append(b, right[:]...))
}
