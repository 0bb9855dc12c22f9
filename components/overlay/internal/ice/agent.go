package ice

import (
	"fmt"
	"net"
	"time"

	pion "github.com/pion/ice/v3"
	"github.com/pion/stun/v2"
	"golang.org/x/net/proxy"
)

const (
	checkInterval      = 20 * time.Millisecond
	maxBindingRequests = 150
	keepalive          = 2 * time.Second
	// relayWait is how long direct pairs have before a relay counts.
	relayWait = 2 * time.Second
	// settle is how long the direct agent goes on checking before it nominates the best
	// pair and leaves the others alone. This delays no caller: a pair is reported as soon
	// as it answers.
	settle = time.Second
	// searchTimeout bounds the search. With a pair an agent never gives up: it answers
	// until Close, in any state of the path.
	searchTimeout = 30 * time.Second
)

// A search has an agent for the shared socket and, if there are relays, another one for
// them, with the same credentials. pion asks a relay for permissions within an agent's
// only loop. With a single agent, each address of the Peer would delay every direct check
// by a round trip.

// newDirectAgent checks from the shared socket.
func newDirectAgent(a *Search) (*pion.Agent, error) {
	bases := make([]net.Addr, 0, 2)
	for _, base := range a.conf.Mux.bases(a.policy) {
		bases = append(bases, net.UDPAddrFromAddrPort(base))
	}
	wait, relays := settle, relayWait
	conf := a.agentConfig()
	conf.CandidateTypes = []pion.CandidateType{pion.CandidateTypeHost}
	conf.UDPMux = sharedPort{port: a.port, bases: bases}
	conf.HostAcceptanceMinWait, conf.SrflxAcceptanceMinWait, conf.PrflxAcceptanceMinWait = &wait, &wait, &wait
	conf.RelayAcceptanceMinWait = &relays
	return pion.NewAgent(conf)
}

// newRelayAgent checks from allocations at relays.
func newRelayAgent(a *Search, relays []*stun.URI) (*pion.Agent, error) {
	wait := relayWait
	if a.conf.RelayOnly {
		wait = 0
	}
	conf := a.agentConfig()
	conf.Urls = relays
	conf.CandidateTypes = []pion.CandidateType{pion.CandidateTypeRelay}
	conf.ProxyDialer = proxyDialer{a.net}
	conf.HostAcceptanceMinWait, conf.SrflxAcceptanceMinWait, conf.PrflxAcceptanceMinWait = &wait, &wait, &wait
	conf.RelayAcceptanceMinWait = &wait
	return pion.NewAgent(conf)
}

func (a *Search) agentConfig() *pion.AgentConfig {
	interval, alive, search, never := checkInterval, keepalive, searchTimeout, time.Duration(0)
	requests := uint16(maxBindingRequests)
	return &pion.AgentConfig{
		LocalUfrag: a.ufrag, LocalPwd: a.pwd,
		NetworkTypes:        []pion.NetworkType{pion.NetworkTypeUDP4, pion.NetworkTypeUDP6},
		MulticastDNSMode:    pion.MulticastDNSModeDisabled,
		CheckInterval:       &interval,
		MaxBindingRequests:  &requests,
		KeepaliveInterval:   &alive,
		DisconnectedTimeout: &search,
		FailedTimeout:       &never,
		DisableActiveTCP:    true,
		LoggerFactory:       iceLog{log: a.log},
		Net:                 a.net,
	}
}

// sharedPort gives an agent its search's port.
type sharedPort struct {
	port  *port
	bases []net.Addr
}

var _ pion.UDPMux = sharedPort{}

func (s sharedPort) GetListenAddresses() []net.Addr { return s.bases }

func (s sharedPort) GetConn(_ string, addr net.Addr) (net.PacketConn, error) {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("share socket: local address is a %T", addr)
	}
	if udp.IP.To4() != nil {
		return s.port.v4, nil
	}
	return s.port.v6, nil
}

// RemoveConnByUfrag does nothing: the agent also closes the result of GetConn.
func (sharedPort) RemoveConnByUfrag(string) {}
func (sharedPort) Close() error             { return nil }

// proxyDialer lets an agent reach relays over TCP through relayNet, which does
// TLS and can be ended. pion leaves TLS to such a dialer.
type proxyDialer struct{ net *relayNet }

var _ proxy.Dialer = proxyDialer{}

func (d proxyDialer) Dial(network, address string) (net.Conn, error) {
	return d.net.dial(network, address)
}
