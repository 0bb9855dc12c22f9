package statement

import "fmt"

const foundingTag = "cadre-founding-statement"

// Founding is what a coordinator asserts to another one that asks which founding of the
// cluster it knows.
type Founding struct {
	Cluster string
	// Founding that it knows (core/founding); "" while it knows none.
	Founding string
	AppID    string
	Slot     string
	// TLSPublicKey is the DER SubjectPublicKeyInfo of its certificate on this connection.
	TLSPublicKey []byte
	Exporter     []byte
	// PeerNonce is the asking coordinator's, 16 to 256 bytes.
	PeerNonce []byte
}

// Encode returns the one encoding, as Agent.Encode does.
func (s Founding) Encode() []byte { return encode(foundingTag, s.fields()) }

// ReportData is what a quote for this statement must carry.
func (s Founding) ReportData() [64]byte { return digest(foundingTag, s.Encode()) }

// Validate says which fields are out of bounds; all problems at once.
func (s Founding) Validate() error { return validate(s.fields()) }

// DecodeFounding reads an encoding that Encode could have made, and nothing else.
// The error wraps ErrNoncanonical or ErrVersion.
func DecodeFounding(b []byte) (Founding, error) {
	var s Founding
	if err := decode(foundingTag, b, s.fields()); err != nil {
		return Founding{}, fmt.Errorf("founding statement: %w", err)
	}
	return s, nil
}

func (s *Founding) fields() []field {
	return []field{
		name("cluster", &s.Cluster), foundingOrNone("founding", &s.Founding),
		hexText("app_id", &s.AppID, 40), name("slot", &s.Slot),
		octets("tls_public_key", &s.TLSPublicKey, minKey, maxKey),
		octets("exporter", &s.Exporter, exporterSize, exporterSize),
		octets("peer_nonce", &s.PeerNonce, minNonce, maxNonce),
	}
}
