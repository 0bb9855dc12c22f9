package peers

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"cadre.dev/overlay"
	"cadre.dev/overlaystatus/peermap"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// FromProto reads a whole map. One bad entry rejects the map: a partial map would silently cut
// Peers off.
func FromProto(cluster string, in []*controlv1.Peer) ([]overlay.Peer, error) {
	if len(in) > peermap.Limit {
		return nil, fmt.Errorf("peer map has %d entries, at most %d are taken", len(in), peermap.Limit)
	}
	out := make([]overlay.Peer, 0, len(in))
	var errs error
	for i, p := range in {
		one, err := fromProto(cluster, p)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("peers[%d] %s: %w", i, p.GetSlot(), err))
			continue
		}
		out = append(out, one)
	}
	if errs != nil {
		return nil, errs
	}
	return out, nil
}

func fromProto(cluster string, p *controlv1.Peer) (overlay.Peer, error) {
	id := overlay.ID{Cluster: cluster, Group: p.GetGroup(), Slot: p.GetSlot()}
	if _, err := overlay.ParseID(id.String()); err != nil {
		return overlay.Peer{}, err
	}
	vip, err := netip.ParseAddr(p.GetVip())
	if err != nil {
		return overlay.Peer{}, fmt.Errorf("vip: %w", err)
	}
	offers, err := ports(p.GetOffers())
	if err != nil {
		return overlay.Peer{}, fmt.Errorf("offers: %w", err)
	}
	accepts, err := ports(p.GetAccepts())
	if err != nil {
		return overlay.Peer{}, fmt.Errorf("accepts: %w", err)
	}
	return overlay.Peer{
		ID: id, BootID: p.GetBootId(), InstanceID: p.GetInstanceId(), VIP: vip,
		Offers: offers, Accepts: accepts, Coordinator: p.GetCoordinator(),
	}, nil
}

func ports(in []*controlv1.Port) ([]overlay.PortRef, error) {
	out := make([]overlay.PortRef, 0, len(in))
	for _, p := range in {
		if p.GetPort() == 0 || p.GetPort() > math.MaxUint16 {
			return nil, fmt.Errorf("port %d is not 1..65535", p.GetPort())
		}
		ref := overlay.PortRef{Port: uint16(p.GetPort()), Loopback: p.GetLoopback()}
		switch p.GetProtocol() {
		case controlv1.Protocol_PROTOCOL_TCP:
			ref.Protocol = overlay.TCP
		case controlv1.Protocol_PROTOCOL_UDP:
			ref.Protocol = overlay.UDP
		case controlv1.Protocol_PROTOCOL_UNSPECIFIED:
			fallthrough
		default:
			return nil, fmt.Errorf("protocol %v of port %d is not known", p.GetProtocol(), p.GetPort())
		}
		out = append(out, ref)
	}
	return out, nil
}
