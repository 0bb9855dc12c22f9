package session

import (
	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// The two carriers, as people see them.
const (
	TLS  = "tls"
	QUIC = "quic"
)

// Session is a carrier's, and who is at its other end. Constant.
type Session struct {
	carrier.Session
	Who identity.Verified
	// Number is the node's for it, never 0.
	Number uint64
	// Tag is what both ends call it.
	Tag frame.SessionTag
	// Dialer tells that this side opened it.
	Dialer bool
	// Class is what it was worth when it was made.
	Class link.Class
	// Path is what is known about its path from that time.
	Path Path
	// Expiry ends it with the far side's certificate.
	Expiry *Expiry

	// shown is what the far side saw when it was made; nil: not known.
	shown *Credentials
}

// Path is what is known about the path of a Session when it is made.
type Path struct {
	// Carrier is [TLS] or [QUIC].
	Carrier       string
	Local, Remote string
}

// Datagrams tells that it travels over UDP.
func (s *Session) Datagrams() bool { return s.Path.Carrier == QUIC }
