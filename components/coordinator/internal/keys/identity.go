package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// CoordinatorGroup is the group name in every coordinator's SPIFFE ID.
const CoordinatorGroup = "coordinator"

// Identity is this coordinator's own key and SVID. The key lives as long as the process and
// identifies this Boot.
type Identity struct {
	key       *ecdsa.PrivateKey
	spki      []byte
	slot      string
	simulated bool
	ca        *CA
	names     []string
}

// NewIdentity makes the Boot key of a coordinator. simulated marks its certificates.
func NewIdentity(ca *CA, slot string, simulated bool) (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make boot key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode boot key: %w", err)
	}
	return &Identity{key: key, spki: spki, slot: slot, simulated: simulated, ca: ca}, nil
}

// AlsoNamed adds DNS names to the certificates that follow: names of the gateway, by which clients
// such as Consul's own tool verify the operators' API. Each name that is not a host name is left out.
// Call it before the first Certificate.
func (i *Identity) AlsoNamed(dnsNames ...string) {
	for _, name := range dnsNames {
		if hostForm.MatchString(name) && len(name) <= 253 {
			i.names = append(i.names, name)
		}
	}
}

var hostForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// PublicKey returns the DER SubjectPublicKeyInfo of the Boot key.
func (i *Identity) PublicKey() []byte { return i.spki }

// BootID returns the ID of this Boot.
func (i *Identity) BootID() string {
	sum := sha256.Sum256(i.spki)
	return hex.EncodeToString(sum[:])
}

// Certificate issues an SVID that is valid from now.
func (i *Identity) Certificate(now time.Time) (tls.Certificate, error) {
	der, _, err := i.ca.SVID(i.key.Public(), Subject{
		Group: CoordinatorGroup, Slot: i.slot, DNSNames: append([]string{ServerName(i.ca.cluster)}, i.names...), Simulated: i.simulated,
	}, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read back SVID: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, i.ca.cert.Raw}, PrivateKey: i.key, Leaf: parsed}, nil
}

// ServerName returns the DNS SAN of every coordinator's SVID.
func ServerName(cluster string) string { return "coordinator." + cluster + ".cadre" }
