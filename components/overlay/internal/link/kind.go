package link

// Kind is a [Class] as people see it and configure it.
type Kind string

const (
	// KindNone: there is no Session.
	KindNone Kind = "none"
	// KindDirectTCP is a byte stream between the two machines.
	KindDirectTCP Kind = "direct-tcp"
	// KindDirectUDP is datagrams between the two machines.
	KindDirectUDP Kind = "direct-udp"
	// KindGateway is a byte stream through the TLS pass-through gateway.
	KindGateway Kind = "gateway"
	// KindRelay is datagrams through a TURN server.
	KindRelay Kind = "relay"
)

// Kind names the class.
func (c Class) Kind() Kind {
	return [...]Kind{KindNone, KindRelay, KindGateway, KindDirectUDP, KindDirectTCP}[c]
}

// Class ranks the kind; an unknown kind has NoClass.
func (k Kind) Class() Class {
	for c := Relay; c <= DirectTCP; c++ {
		if c.Kind() == k {
			return c
		}
	}
	return NoClass
}
