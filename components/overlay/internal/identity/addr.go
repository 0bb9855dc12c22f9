package identity

// Addr names one end of a connection within a Session. It implements net.Addr, so gRPC
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

// Addr is the far end of a Session.
func (v Verified) Addr() Addr {
	return Addr{ID: v.ID, BootID: v.BootID, PublicKey: v.PublicKey}
}
