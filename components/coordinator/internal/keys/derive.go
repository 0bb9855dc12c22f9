package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// Guest gives app keys: the same path gives the same key on every CVM of one app.
type Guest interface {
	GetKey(ctx context.Context, path, purpose string) ([]byte, error)
}

// Root is the cluster's derived material. It is constant after Derive and safe
// for concurrent use.
type Root struct {
	cluster string
	guest   Guest
	ca      *CA
	// gossip, management, agents and nonce are independent: a leak of one says
	// nothing about another.
	gossip     []byte
	management []byte
	agents     []byte
	nonce      []byte
}

// purpose names our use in the guest agent's own key derivation.
const purpose = "cadre"

// Derive asks the guest agent for the cluster's keys. Errors name the key that
// could not be had.
func Derive(ctx context.Context, guest Guest, cluster string) (*Root, error) {
	r := &Root{cluster: cluster, guest: guest}
	seed, err := r.derive(ctx, "ca", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	if r.ca, err = newCA(cluster, seed); err != nil {
		return nil, err
	}
	for name, into := range map[string]*[]byte{
		"gossip": &r.gossip, "management-token": &r.management, "agent-tokens": &r.agents, "admission-nonce": &r.nonce,
	} {
		if *into, err = r.derive(ctx, name, 32); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// CA is the cluster's certificate authority.
func (r *Root) CA() *CA { return r.ca }

// GossipKey is Consul's gossip key in base64, 32 bytes.
func (r *Root) GossipKey() string { return base64.StdEncoding.EncodeToString(r.gossip) }

// ManagementToken is the SecretID of Consul's initial management token.
func (r *Root) ManagementToken() string { return tokenFrom(r.management) }

// CoordinatorAgentToken is the SecretID that the Consul server of a coordinator
// uses for itself.
func (r *Root) CoordinatorAgentToken(slot string) string {
	sum := sha256.Sum256(append(append([]byte{}, r.agents...), slot...))
	return tokenFrom(sum[:])
}

// NonceKey authenticates admission challenges; shared, so that any coordinator
// can check a challenge without having stored it.
func (r *Root) NonceKey() []byte { return r.nonce }

// Secret derives a workload secret of a group: 48 hex characters, stable for
// the life of the cluster.
func (r *Root) Secret(ctx context.Context, group, name string) (string, error) {
	raw, err := r.derive(ctx, "secret/"+group+"/"+name, 24)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

// derive takes the guest's key for one path and expands it, so that the raw
// platform key is used for nothing else.
func (r *Root) derive(ctx context.Context, name string, size int) ([]byte, error) {
	path := "cadre/v1/" + r.cluster + "/" + name
	ikm, err := r.guest.GetKey(ctx, path, purpose)
	if err != nil {
		return nil, fmt.Errorf("get app key %s: %w", path, err)
	}
	if len(ikm) < 16 {
		return nil, fmt.Errorf("get app key %s: the guest agent gave %d bytes, at least 16 are needed", path, len(ikm))
	}
	out, err := hkdf.Key(sha256.New, ikm, nil, path, size)
	if err != nil {
		return nil, fmt.Errorf("expand app key %s: %w", path, err)
	}
	return out, nil
}

// tokenFrom shapes random bytes as a version 4 UUID, which Consul requires of a SecretID.
func tokenFrom(raw []byte) string {
	var id uuid.UUID
	copy(id[:], raw)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
