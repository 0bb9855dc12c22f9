package supervise

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/secret"
)

// MeshLeafTTL is how long a certificate of the service mesh lives: Consul's default. It ends
// nobody's access sooner: the overlay cuts a Boot off that lost its Slot, whatever certificates
// its proxies hold. And each renewal changes the listener of a backend's Envoy, which ends the
// connections of all its callers ten minutes later: with an hour they would live for one.
const MeshLeafTTL = 72 * time.Hour

// MeshCA is the CA of the service mesh.
type MeshCA struct {
	// ClusterID is a UUID, the mesh's name.
	ClusterID string
	// Root is in PEM.
	Root []byte
}

// noKey stands in Consul's configuration in the key's place. Consul shows its configuration to
// whoever may read an agent, as operators may, and hides no key that is among a provider's
// settings. With this it begins with the root that it is to have, which no own root has to make
// way for, and signs nothing until EnsureMeshCA gives it the key.
const noKey = "the coordinator gives it"

// config is what the configuration tells Consul's own CA provider.
func (m MeshCA) config() map[string]any {
	return map[string]any{"cluster_id": m.ClusterID, "leaf_cert_ttl": MeshLeafTTL.String(), "private_key": noKey, "root_cert": string(m.Root)}
}

// EnsureMeshCA makes m, with its key in PEM, the CA of the service mesh of the Consul at address,
// unless it is. Where Consul made a root of its own, as before there was this, that one vouches
// for the new one until what it signed has ended, so that connections stand; the mesh keeps the
// name that it has then. Idempotent; all coordinators may do it at once.
func EnsureMeshCA(ctx context.Context, address string, management secret.Value, m MeshCA, key secret.Value) error {
	client, err := consul.NewClient(&consul.Config{Address: address, Token: management.RevealString()})
	if err != nil {
		return fmt.Errorf("make consul client: %w", err)
	}
	// Both by the leader: no server that lags says what it did not hear yet.
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	roots, _, err := client.Connect().CARoots(query)
	if err != nil {
		return fmt.Errorf("read roots of the service mesh: %w", err)
	}
	have, _, err := client.Connect().CAGetConfig(query)
	if err != nil {
		return fmt.Errorf("read the CA of the service mesh: %w", err)
	}
	rooted, err := m.inUse(roots)
	if err != nil {
		return err
	}
	if text, _ := have.Config["PrivateKey"].(string); rooted && secret.FromString(text).Equal(key) {
		return nil
	}
	_, err = client.Connect().CASetConfig(&consul.CAConfig{Provider: "consul", Config: map[string]any{
		"PrivateKey": key.RevealString(), "RootCert": string(m.Root), "LeafCertTTL": MeshLeafTTL.String(), "IntermediateCertTTL": "8760h",
	}}, (&consul.WriteOptions{}).WithContext(ctx))
	if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
		err = errors.New("consul does not take the key") // and its answer shows it (TOK-07)
	}
	if err != nil {
		return fmt.Errorf("set the CA of the service mesh: %w", err)
	}
	return nil
}

// inUse tells whether the root in use is m's, by its key: were the certificate's bytes to differ
// between two versions of a coordinator, each of them would replace the other's for ever.
func (m MeshCA) inUse(roots *consul.CARootList) (bool, error) {
	want, err := readCert(m.Root)
	if err != nil {
		return false, fmt.Errorf("read the service mesh's CA: %w", err)
	}
	for _, root := range roots.Roots {
		cert, err := readCert([]byte(root.RootCertPEM))
		if err == nil && root.Active && bytes.Equal(cert.RawSubjectPublicKeyInfo, want.RawSubjectPublicKeyInfo) {
			return true, nil
		}
	}
	return false, nil
}

func readCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
