package signal

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// Life is how long an envelope is good for after it was sealed.
const Life = 60 * time.Second

// Skew bounds the difference between the clocks of two Peers. A CVM's clock comes from a
// host that is not trusted, and a wrong clock must not cut a machine off. Replay
// protection does not depend on it: Guard remembers the message for Life and twice the
// Skew, and after a restart the new Boot has another key.
const Skew = 5 * time.Minute

// sealLabel separates this use of a leaf's key. The same key signs (ECDSA) and
// receives (HPKE); the two never see the same bytes.
const sealLabel = "cadre-signal-payload-v1\x00"

// Opened is a message of a sender who is proven, for this Boot.
type Opened struct {
	Message Message
	From    identity.Verified
	// Leaf is the sender's certificate, verified: an answer can be sealed to it.
	Leaf *x509.Certificate
	// Seq and Expires are the envelope's, for Guard.
	Seq     uint64
	Expires time.Time
}

// Seal makes the envelope of m. from is the sender's SVID with its P-256 key,
// toLeaf the recipient's leaf, which the caller has verified to be of to. seq
// must grow with each message of this Boot. It fills in m's FromBoot and ToBoot.
func Seal(m Message, from tls.Certificate, self, to identity.ID, toLeaf *x509.Certificate, seq uint64, now time.Time) ([]byte, error) {
	leaf, err := leafOf(from)
	if err != nil {
		return nil, fmt.Errorf("%w: own certificate: %w", ErrMessage, err)
	}
	if toLeaf == nil {
		return nil, fmt.Errorf("%w: no certificate of %s", ErrMessage, to)
	}
	m.FromBoot, m.ToBoot = identity.BootID(leaf), identity.BootID(toLeaf)
	e := envelope{Header: Header{
		From: self, FromBoot: m.FromBoot, To: to, ToBoot: m.ToBoot, Epoch: m.Epoch, Seq: seq, Expires: now.Add(Life),
	}}
	if e.header, err = appendHeader(nil, e.Header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if e.chain = from.Certificate; len(e.chain) > maxChain {
		return nil, fmt.Errorf("%w: own chain of %d certificates, at most %d", ErrMessage, len(e.chain), maxChain)
	}
	plain, err := m.encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if e.payload, err = sealTo(toLeaf, e.header, plain); err != nil {
		return nil, fmt.Errorf("%w: seal to %s: %w", ErrMessage, to, err)
	}
	signer, ok := from.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: own key of kind %T cannot sign", ErrMessage, from.PrivateKey)
	}
	digest := sha256.Sum256(e.signed())
	if e.signature, err = signer.Sign(rand.Reader, digest[:], crypto.SHA256); err != nil {
		return nil, fmt.Errorf("%w: sign: %w", ErrMessage, err)
	}
	b, err := e.append()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return b, nil
}

// Open authenticates an envelope: a Boot of the cluster with a valid certificate made it
// for this Boot of self, and it is complete and unexpired. The order of checks returns
// [ErrForged] for every changed envelope, and [ErrStale] only for a genuine one. It keeps
// no state; see [Guard].
func Open(b []byte, self identity.ID, own tls.Certificate, roots *x509.CertPool, now time.Time) (Opened, error) {
	leaf, err := leafOf(own)
	if err != nil {
		return Opened{}, fmt.Errorf("own certificate: %w", err)
	}
	e, err := parseEnvelope(b)
	if err != nil {
		return Opened{}, err
	}
	if e.To != self || e.ToBoot != identity.BootID(leaf) {
		return Opened{}, fmt.Errorf("%w: for boot %.12s of %s, this is another", ErrForged, e.ToBoot, e.To)
	}
	from, senderLeaf, err := e.sender(roots)
	if err != nil {
		return Opened{}, fmt.Errorf("%w: %w", ErrForged, err)
	}
	plain, err := openWith(own, e.header, e.payload)
	if err != nil {
		return Opened{}, fmt.Errorf("%w: open payload: %w", ErrForged, err)
	}
	m, err := decodeMessage(plain)
	if err != nil {
		return Opened{}, fmt.Errorf("%w: %w", ErrForged, err)
	}
	if m.FromBoot != e.FromBoot || m.ToBoot != e.ToBoot || m.Epoch != e.Epoch {
		return Opened{}, fmt.Errorf("%w: payload of another envelope", ErrForged)
	}
	switch {
	case e.Expires.After(now.Add(Life + Skew)):
		return Opened{}, fmt.Errorf("%w: lives until %s, longer than it may", ErrForged, e.Expires.UTC().Format(time.RFC3339))
	case e.Expires.Before(now.Add(-Skew)):
		return Opened{}, fmt.Errorf("%w: its life ended at %s", ErrStale, e.Expires.UTC().Format(time.RFC3339))
	}
	return Opened{Message: m, From: from, Leaf: senderLeaf, Seq: e.Seq, Expires: e.Expires}, nil
}

// sender proves who signed the envelope.
func (e envelope) sender(roots *x509.CertPool) (identity.Verified, *x509.Certificate, error) {
	chain := make([]*x509.Certificate, 0, len(e.chain))
	for _, der := range e.chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return identity.Verified{}, nil, err
		}
		chain = append(chain, c)
	}
	from, err := VerifyChain(chain, roots, e.From.Cluster)
	if err != nil {
		return identity.Verified{}, nil, err
	}
	if from.ID != e.From || from.BootID != e.FromBoot {
		return identity.Verified{}, nil, fmt.Errorf("signed by boot %.12s of %s, claims boot %.12s of %s", from.BootID, from.ID, e.FromBoot, e.From)
	}
	key, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return identity.Verified{}, nil, fmt.Errorf("sender's key of kind %T, want P-256", chain[0].PublicKey)
	}
	digest := sha256.Sum256(e.signed())
	if !ecdsa.VerifyASN1(key, digest[:], e.signature) {
		return identity.Verified{}, nil, errors.New("signature does not match")
	}
	return from, chain[0], nil
}

// VerifyChain applies the rules for Peers to a chain that did not come through a
// handshake: leaf first, valid now.
func VerifyChain(chain []*x509.Certificate, roots *x509.CertPool, cluster string) (identity.Verified, error) {
	state := tls.ConnectionState{Version: tls.VersionTLS13, PeerCertificates: chain}
	return identity.Verify(state, roots, cluster, x509.ExtKeyUsageClientAuth)
}

func sealTo(leaf *x509.Certificate, header, plain []byte) ([]byte, error) {
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("key of kind %T, want P-256", leaf.PublicKey)
	}
	public, err := key.ECDH()
	if err != nil {
		return nil, err
	}
	to, err := hpke.NewDHKEMPublicKey(public)
	if err != nil {
		return nil, err
	}
	return hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES128GCM(), append([]byte(sealLabel), header...), plain)
}

func openWith(own tls.Certificate, header, sealed []byte) ([]byte, error) {
	var private ecdh.KeyExchanger
	switch key := own.PrivateKey.(type) {
	case *ecdsa.PrivateKey:
		k, err := key.ECDH()
		if err != nil {
			return nil, err
		}
		private = k
	default:
		return nil, fmt.Errorf("own key of kind %T, want P-256", own.PrivateKey)
	}
	key, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		return nil, err
	}
	return hpke.Open(key, hpke.HKDFSHA256(), hpke.AES128GCM(), append([]byte(sealLabel), header...), sealed)
}

func leafOf(c tls.Certificate) (*x509.Certificate, error) {
	if c.Leaf != nil {
		return c.Leaf, nil
	}
	if len(c.Certificate) == 0 {
		return nil, errors.New("no certificate")
	}
	return x509.ParseCertificate(c.Certificate[0])
}
