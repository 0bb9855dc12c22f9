package address

import (
	"math/bits"
	"net/netip"
)

// Used is the part of Space that cannot be given, in units of the smallest block. The zero
// value is empty. 32 KiB.
type Used struct {
	words [1 << (leastBits - spaceBits) / 64]uint64
}

const spaceBits = 11

// Add marks the part of Space that net covers.
func (u *Used) Add(net netip.Prefix) {
	if !net.IsValid() || !net.Addr().Is4() || !net.Overlaps(Space) {
		return
	}
	if net.Bits() < spaceBits {
		net = Space
	}
	begin := int(number(net.Masked().Addr())-number(Space.Addr())) / least
	for i := range max(1, 1<<(32-net.Bits())/least) {
		u.words[(begin+i)/64] |= 1 << ((begin + i) % 64)
	}
}

// AddAll marks every block of g.
func (u *Used) AddAll(g Given) {
	for _, b := range g.Blocks {
		u.Add(b.Net)
	}
}

// free is the lowest network of size addresses, a power of two, that nothing touches.
func (u *Used) free(size int) (net netip.Prefix, ok bool) {
	units := max(size/least, 1)
	for i := 0; i < len(u.words)*64; i += units {
		if units >= 64 {
			if u.clear(i/64, units/64) {
				return network(i, size), true
			}
			continue
		}
		word := u.words[i/64]
		if word == ^uint64(0) {
			i += 64 - units - i%64 // the next round begins with the next word
			continue
		}
		if word&((1<<units-1)<<(i%64)) == 0 {
			return network(i, size), true
		}
	}
	return netip.Prefix{}, false
}

func (u *Used) clear(word, n int) bool {
	for _, w := range u.words[word : word+n] {
		if w != 0 {
			return false
		}
	}
	return true
}

// network of size addresses that begins with a unit.
func network(unit, size int) netip.Prefix {
	return netip.PrefixFrom(plus(Space.Addr(), unit*least), 32-bits.TrailingZeros(uint(size)))
}
