package agenttest

import (
	"testing"

	"cadre.dev/overlay"
	"cadre.dev/overlay/overlaytest"
)

// Gateway routes by the names of a domain.
type Gateway struct{ *overlaytest.Gateway }

// NewGateway serves until the test ends.
func NewGateway(t testing.TB) *Gateway {
	t.Helper()
	return &Gateway{overlaytest.NewGateway(t)}
}

// Config is how clients find this gateway.
func (g *Gateway) Config() overlay.Gateway {
	return overlay.Gateway{Domain: "gw.test", Address: g.Address()}
}

// Route sends connections for an app or instance to address.
func (g *Gateway) Route(id, address string) { g.Gateway.Route(g.Config().Name(id), address) }
