package overlay

import (
	"testing"

	"cadre.dev/overlay/overlaytest"
)

// splicer is a gateway for a domain.
type splicer struct{ *overlaytest.Gateway }

func newSplicer(t testing.TB) *splicer {
	t.Helper()
	return &splicer{overlaytest.NewGateway(t)}
}

func (g *splicer) gateway() Gateway {
	return Gateway{Domain: "gw.test", Address: g.Address()}
}

func (g *splicer) route(instance, addr string) { g.Route(g.gateway().Name(instance), addr) }

// kill resets every connection that runs through the gateway.
func (g *splicer) kill() { g.Cut() }
