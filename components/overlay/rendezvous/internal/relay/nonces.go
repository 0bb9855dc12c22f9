package relay

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"time"
)

const (
	nonceLife = time.Hour
	nonceMAC  = 8
)

// nonces makes and checks the nonces that clients sign with. A nonce is bound to the
// address that it was sent to, so a client that signs with it has received there. The
// engine's own nonces have 80 characters: too long for an unvalidated address (OVL-09).
type nonces struct{ key []byte }

func newNonces() *nonces {
	n := &nonces{key: make([]byte, sha256.Size)}
	_, _ = rand.Read(n.key) // never fails
	return n
}

func (n *nonces) make(to netip.AddrPort, now time.Time) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(now.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, n.mac(b, to)...))
}

func (n *nonces) good(nonce string, from netip.AddrPort, now time.Time) bool {
	b, err := base64.RawURLEncoding.DecodeString(nonce)
	if err != nil || len(b) != 4+nonceMAC || !hmac.Equal(b[4:], n.mac(b[:4], from)) {
		return false
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint32(b)), 0))
	return age <= nonceLife
}

func (n *nonces) mac(stamp []byte, of netip.AddrPort) []byte {
	addr := of.Addr().As16()
	mac := hmac.New(sha256.New, n.key)
	mac.Write(stamp)
	mac.Write(addr[:])
	mac.Write(binary.BigEndian.AppendUint16(nil, of.Port()))
	return mac.Sum(nil)[:nonceMAC]
}
