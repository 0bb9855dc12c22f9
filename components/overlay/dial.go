package overlay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"cadre.dev/overlay/internal/admission"
)

// DialService opens a connection to a port that the Peer serves itself (its
// Config.Serve), or that it lets this node reach, over the Session in use. Without a
// Session it waits for one until ctx ends; ctx bounds only the opening. The connection is
// full-duplex and has deadlines and CloseWrite. It stays on its Session and ends with
// that: a Link's move to a better path does not move it. Its RemoteAddr is an [Addr] with
// the Boot that the Session has proved.
//
// Errors: [ErrUnknownPeer] for a Peer that the map does not name (any more), [ErrRefused]
// when the Peer turns it down, [ErrNoSession] with ctx's cause when none came in time.
func (n *Node) DialService(ctx context.Context, id ID, port uint16) (net.Conn, error) {
	if port == 0 {
		return nil, fmt.Errorf("dial service of %s: port 0: want 1 to 65535", id)
	}
	p, err := n.peer(id)
	if err == nil {
		var conn net.Conn
		if conn, err = p.DialService(ctx, port); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("dial service %d of %s: %w", port, id, err)
}

// DialAdmission opens a first contact with the coordinator behind serverName,
// see [Gateway.Name], showing boot, a certificate signed by its own key. ctx
// bounds the set-up alone. The far side is unknown until its evidence has been
// verified against State.
func DialAdmission(ctx context.Context, gw Gateway, serverName string, boot tls.Certificate) (*AdmissionConn, error) {
	return admission.Dial(ctx, gw, serverName, boot)
}
