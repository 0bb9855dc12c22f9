package rendezvous

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/pion/logging"
	"github.com/pion/turn/v3"

	"cadre.dev/overlay/internal/mailbox"
)

// allocation is a relay allocation of a client.
type allocation struct {
	t      testing.TB
	server string
	ice    mailbox.ICEServer
	net.PacketConn
	close func()
}

// allocate makes an allocation over UDP with the credentials given.
func allocate(t testing.TB, s *box, offers []mailbox.ICEServer) *allocation {
	t.Helper()
	for _, o := range offers {
		if strings.HasSuffix(o.URL, "transport=udp") {
			a := &allocation{t: t, server: s.STUN()[0], ice: o}
			if err := a.open(); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatal("no TURN server was offered")
	return nil
}

func (a *allocation) open() error {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := logging.NewDefaultLoggerFactory()
	log.DefaultLogLevel = logging.LogLevelDisabled
	c, err := turn.NewClient(&turn.ClientConfig{
		TURNServerAddr: a.server, Username: a.ice.Username, Password: a.ice.Password, Conn: conn, LoggerFactory: log,
	})
	if err != nil {
		conn.Close()
		return err
	}
	stop := sync.OnceFunc(func() {
		c.Close()
		conn.Close()
	})
	if err := c.Listen(); err != nil {
		stop()
		return err
	}
	relayed, err := c.Allocate()
	if err != nil {
		stop()
		return err
	}
	a.PacketConn = relayed
	a.close = sync.OnceFunc(func() {
		relayed.Close()
		stop()
	})
	a.t.Cleanup(a.close)
	return nil
}

// again tries another allocation with the same credentials.
func (a *allocation) again() error {
	b := &allocation{t: a.t, server: a.server, ice: a.ice}
	err := b.open()
	if err == nil {
		b.close()
	}
	return err
}
