package ours

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"cadre.dev/lab/worker"
	"cadre.dev/overlay"
)

// kinds are the overlay's names of the Carriers. A Carrier that this build's overlay lacks is left
// out here: figures that need it are then reported as not measured.
var kinds = map[Carrier]overlay.PathKind{
	Gateway: overlay.PathGateway,
	TCP:     overlay.PathDirectTCP,
	UDP:     overlay.PathDirectUDP,
	Relay:   overlay.PathRelay,
}

// build makes an overlay.Config of a Node. With [over] it is the one place that
// knows how the overlay's paths and carriers are switched on.
func build(n Node, log *slog.Logger) (overlay.Config, error) {
	self, err := overlay.ParseID(n.ID)
	if err != nil {
		return overlay.Config{}, fmt.Errorf("read node: %w", err)
	}
	c := overlay.Config{
		Self: self, SelfVIP: n.VIP, Listen: n.Listen, Log: log,
		Gateway: overlay.Gateway{Domain: n.Domain, Address: n.Address},
		Paths:   []overlay.PathKind{}, // not nil, which would mean all
	}
	for _, carrier := range n.Carriers {
		kind, ok := kinds[carrier]
		if !ok {
			return overlay.Config{}, fmt.Errorf("carrier %s: %w in this build's overlay", carrier, worker.ErrUnavailable)
		}
		c.Paths = append(c.Paths, kind)
	}
	for _, r := range n.Rendezvous {
		c.Rendezvous = append(c.Rendezvous, overlay.Rendezvous{URL: r.URL, CA: r.CA})
	}
	return c, nil
}

// over returns the carrier of a Session that is up; "" is unknown.
func over(s overlay.SessionInfo) Carrier {
	for carrier, kind := range kinds {
		if kind == s.Path {
			return carrier
		}
	}
	return ""
}

// credentials reads a Node's certificate, key and roots.
func credentials(n Node) (overlay.Credentials, error) {
	cert, err := tls.X509KeyPair(n.Certificate, n.Key)
	if err != nil {
		return overlay.Credentials{}, fmt.Errorf("read credentials: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(n.Roots) {
		return overlay.Credentials{}, errors.New("read credentials: no root certificate")
	}
	return overlay.Credentials{Certificate: cert, Roots: roots}, nil
}

// peers translates a peer map.
func peers(all []Peer) ([]overlay.Peer, error) {
	var out []overlay.Peer
	for _, p := range all {
		id, err := overlay.ParseID(p.ID)
		if err != nil {
			return nil, fmt.Errorf("read peer: %w", err)
		}
		out = append(out, overlay.Peer{
			ID: id, BootID: p.Boot, InstanceID: p.Instance, VIP: p.VIP,
			Offers: ports(p.Offers), Accepts: ports(p.Accepts), Coordinator: p.Coordinator,
		})
	}
	return out, nil
}

func ports(numbers []uint16) []overlay.PortRef {
	var refs []overlay.PortRef
	for _, n := range numbers {
		refs = append(refs, overlay.PortRef{Protocol: overlay.TCP, Port: n})
	}
	return refs
}
