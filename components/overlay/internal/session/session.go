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

// Session is a carrier's session with the identity of its other end. Constant.
type Session struct {
	carrier.Session
	Who identity.Verified
	// Number is the node's for it, never 0.
	Number uint64
	// Tag is the Session's name at both ends.
	Tag frame.SessionTag
	// Dialer: this side opened the Session.
	Dialer bool
	// Class is the class of the path when the Session was made.
	Class link.Class
	// Path describes the Session's path at that time.
	Path Path
	// Expiry ends it with the far side's certificate.
	Expiry *Expiry

	// shown are the credentials that the far side saw when the Session was made; nil if
	// unknown.
	shown *Credentials
}

// Path describes the path of a Session when the Session is made.
type Path struct {
	// Carrier is [TLS] or [QUIC].
	Carrier       string
	Local, Remote string
}

// Datagrams reports whether the Session travels over UDP.
func (s *Session) Datagrams() bool { return s.Path.Carrier == QUIC }
