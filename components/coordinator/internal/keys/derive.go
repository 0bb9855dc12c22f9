package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"cadre.dev/core/clusterid"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
)

// Guest returns app keys: the same path gives the same key on every CVM of one app.
type Guest interface {
	GetKey(ctx context.Context, path, purpose string) ([]byte, error)
}

// Purpose is the use of a derived key: a segment of its path. Keys of different purposes are
// independent: a leaked key reveals no other key.
type Purpose string

const (
	// PurposeCA is the seed of the cluster's certificate authority.
	PurposeCA Purpose = "ca"
	// PurposeGossip is Consul's gossip key; it has many epochs.
	PurposeGossip Purpose = "gossip"
	// PurposeManagement is Consul's initial management token.
	PurposeManagement Purpose = "management-token"
	// PurposeNonce authenticates admission challenges.
	PurposeNonce Purpose = "admission-nonce"
	// PurposeBackup authenticates backups of the records.
	PurposeBackup Purpose = "backup"
	// PurposeMachine is the key of the hashes that name machines in records.
	PurposeMachine Purpose = "machine"
	// PurposeConnect is the seed of the CA of Consul's service mesh.
	PurposeConnect Purpose = "connect-ca"
	// PurposeSealing is the seed of the key to which operators seal secrets (core/sealed).
	PurposeSealing Purpose = "operator-secrets"
	// purposeSecret are the workloads' secrets: secret/<group>/<name>.
	purposeSecret Purpose = "secret"
)

// FirstEpoch is the epoch of every key until it is rotated.
const FirstEpoch uint32 = 1

// Root is the cluster's derived material. The material is constant after Derive, except for the
// cache, and safe for concurrent use.
type Root struct {
	cluster    string
	clusterID  string
	guest      Guest
	ca         *CA
	connect    *ConnectCA
	management secret.Value
	nonce      secret.Value
	backup     secret.Value
	machine    secret.Value
	cache      *cache
}

// cache has the last key of each purpose with epochs.
type cache struct {
	mu   sync.Mutex
	last map[Purpose]derived // guarded by mu
}

func (k *cache) get(p Purpose) derived {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[p]
}

func (k *cache) put(p Purpose, d derived) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[p] = d
}

// guestPurpose names Cadre's use in the guest agent's own key derivation.
const guestPurpose = "cadre"

// Derive derives the keys with a single epoch for one cluster ID, through the guest agent. Another
// cluster ID of the same app has other keys. An error names the failed key, or the fault of the
// cluster ID.
func Derive(ctx context.Context, guest Guest, cluster, id string) (*Root, error) {
	if err := clusterid.Check(id); err != nil {
		return nil, fmt.Errorf("derive the cluster's keys: %w", err)
	}
	r := &Root{cluster: cluster, clusterID: id, guest: guest, cache: &cache{last: map[Purpose]derived{}}}
	seed, err := r.deriveUncached(ctx, PurposeCA, FirstEpoch, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	if r.ca, err = newCA(cluster, id, seed.Reveal()); err != nil {
		return nil, err
	}
	mesh, err := r.deriveUncached(ctx, PurposeConnect, FirstEpoch, connectSize)
	if err != nil {
		return nil, err
	}
	if r.connect, err = newConnectCA(cluster, id, mesh.Reveal()); err != nil {
		return nil, err
	}
	for purpose, into := range map[Purpose]*secret.Value{
		PurposeManagement: &r.management, PurposeNonce: &r.nonce, PurposeBackup: &r.backup, PurposeMachine: &r.machine,
	} {
		if *into, err = r.deriveUncached(ctx, purpose, FirstEpoch, 32); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ClusterID returns the cluster ID of the derived keys.
func (r *Root) ClusterID() string { return r.clusterID }

// CA returns the cluster's certificate authority.
func (r *Root) CA() *CA { return r.ca }

// Connect returns the CA of Consul's service mesh.
func (r *Root) Connect() *ConnectCA { return r.connect }

// Gossip returns Consul's gossip key of an epoch: 32 bytes in base64.
func (r *Root) Gossip(ctx context.Context, epoch uint32) (secret.Value, error) {
	raw, err := r.derive(ctx, PurposeGossip, epoch, 32)
	if err != nil {
		return secret.Value{}, err
	}
	return secret.FromString(base64.StdEncoding.EncodeToString(raw.Reveal())), nil
}

// ManagementToken returns the SecretID of Consul's initial management token.
func (r *Root) ManagementToken() secret.Value { return tokenFrom(r.management.Reveal()) }

// NonceKey returns the key that authenticates admission challenges. All coordinators share it, so
// any of them can check a challenge without stored state.
func (r *Root) NonceKey() []byte { return r.nonce.Reveal() }

// BackupKey returns the key that authenticates backups. It exists in memory only, and every
// coordinator of this cluster ID derives it.
func (r *Root) BackupKey() []byte { return r.backup.Reveal() }

// Machine returns the keyed hash of a machine's name, 64 lower-case hex digits; "" for no name. Every
// coordinator of this cluster ID makes the same one, also after a restore. A reader of records or of a
// backup can neither test a known machine against it nor compare it with another cluster's.
func (r *Root) Machine(name string) string {
	if name == "" {
		return ""
	}
	mac := hmac.New(sha256.New, r.machine.Reveal())
	mac.Write([]byte(name))
	return hex.EncodeToString(mac.Sum(nil))
}

// Secret derives size raw bytes of an epoch of a group's secret. Names contain no slash
// (group.Validate), so two secrets never share a path.
func (r *Root) Secret(ctx context.Context, group, name string, epoch uint32, size int) (secret.Value, error) {
	return r.derive(ctx, purposeSecret+Purpose("/"+group+"/"+name), epoch, size)
}

// Sealing derives the private key of a key epoch, to which operators seal secrets. Every coordinator of
// this cluster ID derives the same key.
func (r *Root) Sealing(ctx context.Context, epoch uint32) (sealed.Key, error) {
	seed, err := r.derive(ctx, PurposeSealing, epoch, sealed.KeySize)
	if err != nil {
		return sealed.Key{}, err
	}
	return sealed.NewKey(seed)
}

// Path returns the path of a key for the guest agent:
// cadre/v1/<cluster>/<cluster ID>/<purpose>/<epoch>.
func Path(cluster, id string, purpose Purpose, epoch uint32) string {
	return "cadre/v1/" + cluster + "/" + id + "/" + string(purpose) + "/" + strconv.FormatUint(uint64(epoch), 10)
}

// derived is the last requested key of a purpose.
type derived struct {
	epoch uint32
	size  int
	key   secret.Value
}

// derive returns the key of a purpose and epoch. derive calls the guest agent only if the key
// differs from the last one: the guest agent makes one key at a time, and each renewal of each Boot
// needs the same keys.
func (r *Root) derive(ctx context.Context, purpose Purpose, epoch uint32, size int) (secret.Value, error) {
	last := r.cache.get(purpose)
	if last.epoch == epoch && last.size == size && !last.key.IsZero() {
		return last.key, nil
	}
	key, err := r.deriveUncached(ctx, purpose, epoch, size)
	if err == nil {
		r.cache.put(purpose, derived{epoch: epoch, size: size, key: key})
	}
	return key, err
}

// deriveUncached takes the guest's key for one path and expands it, so that the raw platform key
// has no other use.
func (r *Root) deriveUncached(ctx context.Context, purpose Purpose, epoch uint32, size int) (secret.Value, error) {
	path := Path(r.cluster, r.clusterID, purpose, epoch)
	if epoch < FirstEpoch {
		return secret.Value{}, fmt.Errorf("derive key %s: epochs begin at %d", path, FirstEpoch)
	}
	ikm, err := r.guest.GetKey(ctx, path, guestPurpose)
	if err != nil {
		return secret.Value{}, fmt.Errorf("get app key %s: %w", path, err)
	}
	if len(ikm) < 16 {
		return secret.Value{}, fmt.Errorf("get app key %s: the guest agent returned %d bytes, at least 16 are needed", path, len(ikm))
	}
	out, err := hkdf.Key(sha256.New, ikm, nil, path, size)
	if err != nil {
		return secret.Value{}, fmt.Errorf("expand app key %s: %w", path, err)
	}
	return secret.New(out), nil
}

// tokenFrom makes a SecretID of random bytes, which Consul requires to be a UUID.
func tokenFrom(raw []byte) secret.Value { return secret.FromString(uuidFrom(raw)) }

// uuidFrom shapes random bytes as a version 4 UUID.
func uuidFrom(raw []byte) string {
	var id uuid.UUID
	copy(id[:], raw)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
