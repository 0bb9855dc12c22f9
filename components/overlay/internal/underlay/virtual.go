package underlay

import (
	"net"
	"sync/atomic"
)

// Virtual addresses are assigned in order from 100.64.0.0/10 and, after the last one,
// again with the next port. A process would have to make four million Links to reach its
// second port.
const (
	virtualBase = 100<<24 | 64<<16
	virtualHost = 1<<22 - 1
	virtualPort = 443
)

var virtualNext atomic.Uint64

// virtualKey is a virtual address as a number: address and port.
type virtualKey uint64

func newVirtual() (*net.UDPAddr, virtualKey) {
	n := virtualNext.Add(1)
	ip := uint32(virtualBase | n&virtualHost)
	port := virtualPort + int(n>>22)
	addr := &net.UDPAddr{IP: net.IPv4(byte(ip>>24), byte(ip>>16), byte(ip>>8), byte(ip)).To4(), Port: port}
	return addr, keyOf(addr)
}

// keyOf returns 0, an unused key, for an address that is not IPv4.
func keyOf(a *net.UDPAddr) virtualKey {
	if a == nil {
		return 0
	}
	ip := a.IP.To4()
	if ip == nil {
		return 0
	}
	return virtualKey(ip[0])<<40 | virtualKey(ip[1])<<32 | virtualKey(ip[2])<<24 | virtualKey(ip[3])<<16 | virtualKey(uint16(a.Port))
}
