package overlay

import (
	"fmt"
	"net"
)

// sessionPort is the port that every node's Session listener has in its CVM.
const sessionPort = 7443

// Gateway is the TLS pass-through in front of every machine.
type Gateway struct {
	// Domain is the base domain of the names that the gateway routes by.
	Domain string
	// Address is the host:port to dial. "" means: resolve the routed name and
	// dial its port 443.
	Address string
}

// Name gives the server name by which the gateway routes to the Session
// listener of an instance, or of some instance of an app.
func (g Gateway) Name(instanceOrAppID string) string {
	return fmt.Sprintf("%s-%ds.%s", instanceOrAppID, sessionPort, g.Domain)
}

// target gives the address to dial for a routed name.
func (g Gateway) target(name string) string {
	if g.Address != "" {
		return g.Address
	}
	return net.JoinHostPort(name, "443")
}
