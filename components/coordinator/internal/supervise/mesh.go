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

// MeshLeafTTL is the life of a certificate of the service mesh, Consul's default. A shorter one
// would not end access sooner, because the overlay cuts off a Boot that lost its Slot, regardless
// of its proxies' certificates. In addition, each renewal changes the listener of a backend's
// Envoy, which closes the connections of all its callers ten minutes later. With a TTL of an hour,
// connections would live for an hour.
const MeshLeafTTL = 72 * time.Hour

// MeshCA is the CA of the service mesh.
type MeshCA struct {
	// ClusterID is a UUID, the name of the mesh.
	ClusterID string
	// Root is in PEM.
	Root []byte
}

// noKey takes the place of the key in Consul's configuration. Consul shows its configuration to
// every token that may read an agent, as operators' may, and does not hide a key in a provider's
// settings. With noKey Consul starts with its final root, so no generated root has to be replaced.
// It signs nothing until EnsureMeshCA sets the key.
const noKey = "the coordinator gives it"

// config returns the settings of Consul's own CA provider.
func (m MeshCA) config() map[string]any {
	return map[string]any{"cluster_id": m.ClusterID, "leaf_cert_ttl": MeshLeafTTL.String(), "private_key": noKey, "root_cert": string(m.Root)}
}

// EnsureMeshCA makes m, with its key in PEM, the CA of the service mesh of the Consul at address,
// unless it is already. If Consul has generated a root, as in earlier versions, that root
// cross-signs the new one until its certificates have expired, so that connections continue; the
// mesh keeps its name. Idempotent; all coordinators may call it concurrently.
func EnsureMeshCA(ctx context.Context, address string, management secret.Value, m MeshCA, key secret.Value) error {
	client, err := consul.NewClient(&consul.Config{Address: address, Token: management.RevealString()})
	if err != nil {
		return fmt.Errorf("make consul client: %w", err)
	}
	// The leader answers both reads: a lagging server could return an old state.
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
		err = errors.New("consul rejects the key") // its error would contain the key (TOK-07)
	}
	if err != nil {
		return fmt.Errorf("set the CA of the service mesh: %w", err)
	}
	return nil
}

// inUse reports whether the root in use is m's, by its key. If it compared certificates, two
// versions of a coordinator with different encodings would replace each other's root without end.
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
