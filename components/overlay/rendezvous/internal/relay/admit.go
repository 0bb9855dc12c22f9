package relay

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/stunaddr"
	"cadre.dev/overlay/rendezvous/internal/credential"
)

const (
	attrChannel         stun.AttrType = 0x000C
	attrLifetime        stun.AttrType = 0x000D
	attrXORPeer         stun.AttrType = 0x0012
	attrRequestedFamily stun.AttrType = 0x0017
	attrEvenPort        stun.AttrType = 0x0018
	attrRequested       stun.AttrType = 0x0019
	attrReservation     stun.AttrType = 0x0022

	protoUDP   = 17
	familyIPv6 = 0x02
	// maxLifetime bounds one refresh of an allocation.
	maxLifetime = 10 * time.Minute
	// maxMessage is the longest request; the engine adds a longer nonce.
	maxMessage = 1280
)

// Reasons in the answers of the filter. Clients see them as the reason phrase.
const (
	reasonExpired   = "TURN_CRED_EXPIRED"
	reasonForbidden = "RELAY_PEER_FORBIDDEN"
	reasonLimit     = "LINK_LIMIT"
)

// admit judges one STUN message in p[:n]. It returns the length of the message for the
// engine, which it leaves in p. 0 means that the engine must not see the message: then
// the filter has answered it, or it stays unanswered.
func (g *relayFilter) admit(p []byte, n int, from netip.AddrPort, to net.Addr) int {
	if n > maxMessage && !isIndication(p[:n]) {
		return 0
	}
	m := &stun.Message{Raw: p[:n]}
	if !stun.IsMessage(p[:n]) || m.Decode() != nil {
		return 0
	}
	switch m.Type {
	case stun.BindingRequest:
		return n // answered with less than three times its length
	case stun.NewType(stun.MethodSend, stun.ClassIndication):
		if g.of(from) == nil {
			return 0
		}
		return n // the allocation's socket judges the peer
	}
	if m.Type.Class != stun.ClassRequest {
		return 0
	}
	switch m.Type.Method {
	case stun.MethodAllocate, stun.MethodRefresh, stun.MethodCreatePermission, stun.MethodChannelBind:
	default:
		return 0
	}
	if !g.authenticate(m, from, to) || !g.permit(m, from, to) {
		g.claim, g.key = nil, nil
		return 0
	}
	return g.rewrite(m, p)
}

// isIndication: the only STUN messages that carry data, and may be long.
func isIndication(b []byte) bool {
	return len(b) > 1 && b[0]&0x01 == 0 && b[1]&0x10 != 0
}

// authenticate proves the sender's identity. A sender that signs with the name and key of
// a living allocation is its owner, even when that name has expired: the allocation's
// until decides how long the allocation may live.
func (g *relayFilter) authenticate(m *stun.Message, from netip.AddrPort, to net.Addr) bool {
	now := g.relay.cfg.Now()
	if !m.Contains(stun.AttrMessageIntegrity) {
		g.challenge(m, to, stun.CodeUnauthorized, "", from, now)
		return false
	}
	var (
		nonce stun.Nonce
		name  stun.Username
		realm stun.Realm
	)
	if nonce.GetFrom(m) != nil || name.GetFrom(m) != nil || realm.GetFrom(m) != nil || trailing(m) {
		return false
	}
	if !g.relay.nonces.good(nonce.String(), from, now) {
		g.challenge(m, to, stun.CodeStaleNonce, "", from, now)
		return false
	}
	c, err := g.credential(name.String(), from, now)
	if err != nil || realm.String() != Realm {
		g.relay.cfg.Meter.Refused(reasonExpired)
		g.challenge(m, to, stun.CodeUnauthorized, reasonExpired, from, now)
		return false
	}
	if stun.MessageIntegrity(c.key).Check(m) != nil {
		g.relay.cfg.Meter.Refused(reasonExpired)
		g.challenge(m, to, stun.CodeUnauthorized, reasonExpired, from, now)
		return false
	}
	if a := g.of(from); a != nil {
		if a.owner != c.owner {
			g.refuse(m, to, c.key, stun.CodeWrongCredentials, "")
			return false
		}
		a.renew(c)
	}
	g.claim, g.key = c, c.key
	return true
}

func (g *relayFilter) credential(name string, from netip.AddrPort, now time.Time) (*claim, error) {
	if a := g.of(from); a != nil {
		if c := a.claimFor(name); c != nil {
			if !now.Before(a.until()) {
				return nil, errors.Join(credential.ErrExpired, a.Close())
			}
			return c, nil
		}
	}
	owner, password, expires, err := g.relay.cfg.Mint.Check(name, now)
	if err != nil {
		return nil, err
	}
	return &claim{
		owner: owner, username: name, key: stun.NewLongTermIntegrity(name, Realm, password),
		expires: expires, from: from, filter: g,
	}, nil
}

// permit judges the request of a proven owner.
func (g *relayFilter) permit(m *stun.Message, from netip.AddrPort, to net.Addr) bool {
	a := g.of(from)
	if m.Type.Method == stun.MethodAllocate {
		return g.permitAllocate(m, a, to)
	}
	if a == nil {
		g.refuse(m, to, g.key, stun.CodeAllocMismatch, "")
		return false
	}
	var peers []netip.AddrPort
	err := m.ForEach(attrXORPeer, func(m *stun.Message) error {
		peer, err := stunaddr.Read(m, attrXORPeer)
		peers = append(peers, peer)
		return err
	})
	if err != nil {
		g.refuse(m, to, g.key, stun.CodeBadRequest, "")
		return false
	}
	for _, peer := range peers {
		if !g.relay.mayReach(peer, m.Type.Method == stun.MethodChannelBind, a) {
			g.relay.cfg.Meter.Refused(reasonForbidden)
			if g.relay.warns.Allow(g.relay.cfg.Now()) {
				g.relay.log.Warn("relay to a forbidden peer refused", "code", reasonForbidden, "peer", a.owner.ID.String(), "address", peer.String())
			}
			g.refuse(m, to, g.key, stun.CodeForbidden, reasonForbidden)
			return false
		}
	}
	channel := uint16(0)
	if v, err := m.Get(attrChannel); err == nil && len(v) == 4 {
		channel = uint16(v[0])<<8 | uint16(v[1])
	}
	if !a.note(peers, channel) {
		g.relay.cfg.Meter.Refused(reasonLimit)
		g.refuse(m, to, g.key, stun.CodeInsufficientCapacity, reasonLimit)
		return false
	}
	return true
}

func (g *relayFilter) permitAllocate(m *stun.Message, a *allocation, to net.Addr) bool {
	if v, err := m.Get(attrRequested); err != nil || len(v) != 4 || v[0] != protoUDP {
		g.refuse(m, to, g.key, stun.CodeUnsupportedTransProto, "")
		return false
	}
	if v, err := m.Get(attrRequestedFamily); err == nil && len(v) == 4 && v[0] == familyIPv6 {
		g.refuse(m, to, g.key, stun.CodeAddrFamilyNotSupported, "")
		return false
	}
	if m.Contains(attrEvenPort) || m.Contains(attrReservation) {
		// Pairs of ports are for media; they would be allocations without owner.
		g.refuse(m, to, g.key, stun.CodeInsufficientCapacity, "")
		return false
	}
	// For an allocation that is there already the engine repeats its answer.
	if a == nil && !g.relay.room(g.claim) {
		g.relay.cfg.Meter.Refused(reasonLimit)
		g.refuse(m, to, g.key, stun.CodeAllocQuotaReached, reasonLimit)
		return false
	}
	return true
}

// mayReach judges a peer; its port only where traffic will go to that port.
// Relay sockets are IPv4: for IPv6 a permission would be a place taken in vain.
func (r *Relay) mayReach(peer netip.AddrPort, port bool, a *allocation) bool {
	if !peer.Addr().Is4() {
		return false
	}
	if peer.Addr() == r.cfg.RelayIP {
		return !port || r.neighbour(peer.Port(), a.owner) != nil
	}
	return (!port || peer.Port() >= lowestPort) && r.addresses.allows(peer.Addr())
}

func (r *Relay) room(c *claim) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !r.draining && len(r.allocs) < r.cfg.Limits.Allocations && r.perSlot[c.owner.ID] < r.cfg.Limits.AllocationsPerSlot
}

// rewrite leaves in p the request as the engine wants it: with its nonce, and a
// lifetime that is not too long, signed with the same key.
func (g *relayFilter) rewrite(m *stun.Message, p []byte) int {
	out := new(stun.Message)
	out.TransactionID = m.TransactionID
	out.Type = m.Type
	out.WriteHeader()
	for _, a := range m.Attributes {
		switch a.Type {
		case stun.AttrNonce, stun.AttrMessageIntegrity, stun.AttrFingerprint:
		case attrLifetime:
			out.Add(a.Type, capLifetime(a.Value))
		default:
			out.Add(a.Type, a.Value)
		}
	}
	out.Add(stun.AttrNonce, []byte(g.engineNonce))
	if stun.MessageIntegrity(g.key).AddTo(out) != nil || len(out.Raw) > len(p) {
		return 0
	}
	return copy(p, out.Raw)
}

func capLifetime(v []byte) []byte {
	limit := uint32(maxLifetime / time.Second)
	if len(v) != 4 || v[0] != 0 || v[1] != 0 || uint32(v[2])<<8|uint32(v[3]) > limit {
		return []byte{0, 0, byte(limit >> 8), byte(limit)}
	}
	return v
}

// trailing reports attributes behind the signature, which are unauthenticated.
func trailing(m *stun.Message) bool {
	at := slices.IndexFunc(m.Attributes, func(a stun.RawAttribute) bool { return a.Type == stun.AttrMessageIntegrity })
	for _, a := range m.Attributes[at+1:] {
		if a.Type != stun.AttrFingerprint {
			return true
		}
	}
	return false
}

// challenge answers with a nonce and no more: the far side may not be who sent.
func (g *relayFilter) challenge(m *stun.Message, to net.Addr, code stun.ErrorCode, reason string, from netip.AddrPort, now time.Time) {
	g.send(to, stun.NewTransactionIDSetter(m.TransactionID), stun.NewType(m.Type.Method, stun.ClassErrorResponse),
		stun.ErrorCodeAttribute{Code: code, Reason: []byte(reason)},
		stun.NewRealm(Realm), stun.NewNonce(g.relay.nonces.make(from, now)))
}

// refuse answers a proven owner.
func (g *relayFilter) refuse(m *stun.Message, to net.Addr, key []byte, code stun.ErrorCode, reason string) {
	g.send(to, stun.NewTransactionIDSetter(m.TransactionID), stun.NewType(m.Type.Method, stun.ClassErrorResponse),
		stun.ErrorCodeAttribute{Code: code, Reason: []byte(reason)}, stun.MessageIntegrity(key))
}

func (g *relayFilter) send(to net.Addr, parts ...stun.Setter) {
	m, err := stun.Build(parts...)
	if err != nil {
		return
	}
	// An answer that is lost is asked for again.
	_, _ = g.PacketConn.WriteTo(m.Raw, to)
}

// claimFor returns the proof of a sender that signs with a's name, nil for another name.
func (a *allocation) claimFor(name string) *claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name != a.username {
		return nil
	}
	return &claim{owner: a.owner, username: name, key: a.key, expires: a.expires, from: a.from, filter: a.filter}
}

// renew takes a newer credential of the owner.
func (a *allocation) renew(c *claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.expires.After(a.expires) {
		a.expires, a.username, a.key = c.expires, c.username, c.key
	}
}

// note records the permissions and the channel that an allocation requests; false,
// without a record, above the bounds.
func (a *allocation) note(peers []netip.AddrPort, channel uint16) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	fresh := map[netip.Addr]struct{}{}
	for _, p := range peers {
		if _, known := a.permissions[p.Addr()]; !known {
			fresh[p.Addr()] = struct{}{}
		}
	}
	_, bound := a.channels[channel]
	bind := channel != 0 && !bound
	if len(a.permissions)+len(fresh) > maxPermissions || (bind && len(a.channels) >= maxChannels) {
		return false
	}
	maps.Copy(a.permissions, fresh)
	if bind {
		a.channels[channel] = struct{}{}
	}
	return true
}

// permits reports whether the owner has permitted this sender.
func (a *allocation) permits(from netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.permissions[from]
	return ok
}
