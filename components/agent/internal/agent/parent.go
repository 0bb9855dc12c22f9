package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net"

	"cadre.dev/agent/internal/admit"
)

// Parent is the process that outlives this one: it serves one Boot, across all its processes. Safe
// for concurrent use.
type Parent interface {
	// Key is the Boot key. NewKey ends the Boot and gives that of the next; Key does
	// so from then on.
	Key() (*ecdsa.PrivateKey, error)
	NewKey() (*ecdsa.PrivateKey, error)
	// Run is how many processes there were before this one.
	Run() (uint32, error)
	// Beat reports that this process makes progress. After the first Beat, the parent replaces the
	// process when a minute passes without another.
	Beat() error
	// Listen and ListenPacket are as overlay.Listener wants them.
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// Sessions are the addresses off loopback that an agent with cfg listens on, by network.
func Sessions(cfg Config) map[string]string {
	return map[string]string{"tcp": cfg.Listen, "udp4": "0.0.0.0:0"}
}

// bootOf is the Boot that parent knows, and how many processes it had.
func bootOf(parent Parent) (*admit.Boot, uint32, error) {
	key, err := parent.Key()
	if err != nil {
		return nil, 0, err
	}
	run, err := parent.Run()
	if err != nil {
		return nil, 0, err
	}
	boot, err := admit.BootOf(key)
	return boot, run, err
}

// alone is the Parent of a process that nothing outlives: each Key is another Boot's.
type alone struct{ net.ListenConfig }

func newAlone() *alone {
	a := &alone{}
	a.SetMultipathTCP(false) // apps on this machine do not use it
	return a
}

// Key implements Parent.
func (*alone) Key() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// NewKey implements Parent.
func (a *alone) NewKey() (*ecdsa.PrivateKey, error) { return a.Key() }

// Run implements Parent.
func (*alone) Run() (uint32, error) { return 0, nil }

// Beat implements Parent.
func (*alone) Beat() error { return nil }
