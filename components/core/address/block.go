package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

var (
	// Space holds every virtual address of a cluster.
	Space = netip.MustParsePrefix("127.32.0.0/11")
	// Fixed is the part of Space that no block is given from: coordinator-n has
	// 127.50.0.<n+1>, and a group from before there were blocks has 127.50.<k>.0/24.
	Fixed = netip.MustParsePrefix("127.50.0.0/16")
)

const (
	// leastBits and mostBits are the prefix lengths of the smallest and the largest block
	// that is given.
	leastBits = 29
	mostBits  = 20
	// fixedBits is the prefix length of the blocks in Fixed.
	fixedBits = 24
	// least is the number of addresses of the smallest block. Every block is as many times
	// as large, begins at a multiple of it and First is one below a multiple, so that the
	// place of an ordinal within the smallest block is known without the record.
	least = 1 << (32 - leastBits)
	most  = 1 << (32 - mostBits)
)

// ErrExhausted: no block of the size that is needed is free.
var ErrExhausted = errors.New("no virtual addresses are left")

// Block is a network whose addresses belong to consecutive ordinals of one group.
type Block struct {
	// First is the ordinal of the network's first address. -1, so that ordinal 0 has the
	// second one, in the first block of each group.
	First int          `json:"first"`
	Net   netip.Prefix `json:"net"`
}

// Check is an error when b is no block that is given.
func (b Block) Check() error {
	switch {
	case !b.Net.IsValid() || b.Net.Masked() != b.Net || !b.Net.Addr().Is4() || b.Net.Bits() > leastBits || b.Net.Bits() < mostBits:
		return fmt.Errorf("net: %q is not a network of /%d to /%d", b.Net, mostBits, leastBits)
	case !Space.Contains(b.Net.Addr()):
		return fmt.Errorf("net: %s lies outside of %s", b.Net, Space)
	case b.Net.Overlaps(Fixed) && (b.Net.Bits() != fixedBits || b.First != -1 || b.Net.Addr().As4()[2] == 0):
		return fmt.Errorf("net: %s lies in %s, where only /%d networks are, with first -1, but the coordinators'", b.Net, Fixed, fixedBits)
	case b.First < -1 || (b.First+1)%least != 0:
		return fmt.Errorf("first: is %d: must be one below a multiple of %d", b.First, least)
	}
	return nil
}

// size is the number of addresses of b.
func (b Block) size() int { return 1 << (32 - b.Net.Bits()) }

// Address of an ordinal; ok is false when it is not in b.
func (b Block) Address(ordinal int) (addr netip.Addr, ok bool) {
	i := ordinal - b.First
	if ordinal < 0 || i < 0 || i >= b.size() {
		return netip.Addr{}, false
	}
	return plus(b.Net.Addr(), i), true
}

// Around returns the smallest block that gives this ordinal this address: the block that gave it,
// or a part of that block. ok is false where no block gives it.
func Around(addr netip.Addr, ordinal int) (b Block, ok bool) {
	bits := leastBits
	if Fixed.Contains(addr) {
		bits = fixedBits
	}
	net, err := addr.Prefix(bits)
	if err != nil || !addr.Is4() {
		return Block{}, false
	}
	b = Block{Net: net, First: ordinal - int(number(addr)-number(net.Addr()))}
	return b, ordinal >= 0 && b.Check() == nil
}

func number(a netip.Addr) uint32 {
	four := a.As4()
	return binary.BigEndian.Uint32(four[:])
}

func plus(a netip.Addr, n int) netip.Addr {
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], number(a)+uint32(n))
	return netip.AddrFrom4(four)
}
