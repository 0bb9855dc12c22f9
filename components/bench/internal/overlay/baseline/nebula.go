package baseline

import (
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/slackhq/nebula"
	"github.com/slackhq/nebula/cert"
	"github.com/slackhq/nebula/config"

	"cadre.dev/lab/worker"
)

// NebulaConfig is the config of the role "nebula", one end of a tunnel.
type NebulaConfig struct {
	NebulaIdentity
	Port     uint16         `json:"port"`
	Remote   netip.Addr     `json:"remote"`   // of the other end inside the tunnel
	Endpoint netip.AddrPort `json:"endpoint"` // where the other end listens
}

// NebulaIdentity is the certificate and the trust of one end, in PEM.
type NebulaIdentity struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// NebulaIdentities makes a CA and an identity for each address.
func NebulaIdentities(addresses ...netip.Prefix) ([]NebulaIdentity, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make Nebula CA: %w", err)
	}
	validity := func(d cert.NebulaCertificateDetails) *cert.NebulaCertificate {
		d.NotBefore, d.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(12*time.Hour)
		return &cert.NebulaCertificate{Details: d}
	}
	ca := validity(cert.NebulaCertificateDetails{Name: "bench CA", PublicKey: public, IsCA: true})
	ca.Details.NotAfter = ca.Details.NotAfter.Add(time.Hour)
	if err := ca.Sign(cert.Curve_CURVE25519, private); err != nil {
		return nil, fmt.Errorf("make Nebula CA: %w", err)
	}
	issuer, err := ca.Sha256Sum()
	if err != nil {
		return nil, fmt.Errorf("make Nebula CA: %w", err)
	}
	caPEM, err := ca.MarshalToPEM()
	if err != nil {
		return nil, fmt.Errorf("make Nebula CA: %w", err)
	}
	var all []NebulaIdentity
	for _, a := range addresses {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make Nebula key: %w", err)
		}
		c := validity(cert.NebulaCertificateDetails{
			Name: a.Addr().String(), PublicKey: key.PublicKey().Bytes(), Issuer: issuer,
			Ips: []*net.IPNet{{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), 32)}},
		})
		if err := c.Sign(cert.Curve_CURVE25519, private); err != nil {
			return nil, fmt.Errorf("sign Nebula certificate: %w", err)
		}
		pem, err := c.MarshalToPEM()
		if err != nil {
			return nil, fmt.Errorf("write Nebula certificate: %w", err)
		}
		all = append(all, NebulaIdentity{CA: string(caPEM), Cert: string(pem), Key: string(cert.MarshalX25519PrivateKey(key.Bytes()))})
	}
	return all, nil
}

// Nebula is the role "nebula": the whole program as a library, with its default
// settings and a firewall that lets everything through.
func Nebula(_ context.Context, raw json.RawMessage) (worker.Actor, error) {
	var c NebulaConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	type object = map[string]any
	anything := []object{{"port": "any", "proto": "any", "host": "any"}}
	text, err := json.Marshal(object{
		"pki":             object{"ca": c.CA, "cert": c.Cert, "key": c.Key},
		"static_host_map": object{c.Remote.String(): []string{c.Endpoint.String()}},
		"lighthouse":      object{"am_lighthouse": false},
		"listen":          object{"host": "0.0.0.0", "port": c.Port},
		"tun":             object{"dev": "neb0"},
		"punchy":          object{"punch": false},
		"firewall":        object{"inbound": anything, "outbound": anything},
		"logging":         object{"level": "warning"},
	})
	if err != nil {
		return worker.Actor{}, fmt.Errorf("write Nebula config: %w", err)
	}
	log := logrus.New()
	log.Out = os.Stderr
	settings := config.NewC(log)
	if err := settings.LoadString(string(text)); err != nil { // JSON is YAML
		return worker.Actor{}, fmt.Errorf("read Nebula config: %w", err)
	}
	control, err := nebula.Main(settings, false, "bench", log, nil)
	if err != nil {
		return worker.Actor{}, fmt.Errorf("start Nebula: %w", err)
	}
	control.Start()
	return worker.Actor{Close: control.Stop}, nil
}
