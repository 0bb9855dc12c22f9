package overlay

// Addr names one end of a control connection. It implements net.Addr, so gRPC
// hands it to handlers as the peer's address.
type Addr struct {
	ID     ID
	BootID string
	// PublicKey is the SubjectPublicKeyInfo that BootID is the digest of, DER; empty
	// for the node's own end.
	PublicKey string
}

// Network returns "cadre".
func (Addr) Network() string { return "cadre" }

// String gives the SPIFFE form of the ID.
func (a Addr) String() string { return a.ID.String() }
