package address

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Given is the record at addresses/<group>: the blocks of one group. Written by the
// leader only.
type Given struct {
	Group string `json:"group"`
	// Blocks in the order in which an ordinal is looked up. None is taken back while the
	// group is there.
	Blocks []Block `json:"blocks"`
	// UnusedSince is when the group was first seen to be gone; zero while it is there. Its
	// addresses are not given to others for a while, since Peers may know them yet.
	UnusedSince time.Time `json:"unused_since,omitzero"`
	Term        uint64    `json:"term"`
}

// maxBlocks bounds Given: each block that is added is as large as all before it, and
// adoptions add some.
const maxBlocks = 320

// Check reports every field that cannot be.
func (g Given) Check() error {
	var problems []error
	if len(g.Blocks) > maxBlocks {
		problems = append(problems, fmt.Errorf("blocks: there are %d, at most %d", len(g.Blocks), maxBlocks))
	}
	for i, b := range g.Blocks {
		if err := b.Check(); err != nil {
			problems = append(problems, fmt.Errorf("blocks[%d].%w", i, err))
		}
	}
	return errors.Join(problems...)
}

// Overlapping is a block of g that shares addresses with net.
func (g Given) Overlapping(net netip.Prefix) (b Block, ok bool) {
	for _, b := range g.Blocks {
		if b.Net.Overlaps(net) {
			return b, true
		}
	}
	return Block{}, false
}

// Address of an ordinal: that of the first block which has it free.
func (g Given) Address(ordinal int, taken func(netip.Addr) bool) (addr netip.Addr, ok bool) {
	for _, b := range g.Blocks {
		if addr, ok := b.Address(ordinal); ok && !taken(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// With returns g with a block in front in which addr belongs to this ordinal, reusing or adding the
// block: the address from before the record was lost comes first. ok is false where no block gives
// the ordinal this address.
func (g Given) With(addr netip.Addr, ordinal int) (with Given, ok bool) {
	for _, b := range g.Blocks {
		if own, has := b.Address(ordinal); has && own == addr {
			return g, true
		}
	}
	b, ok := Around(addr, ordinal)
	if !ok {
		return g, false
	}
	with = g
	with.Blocks = append([]Block{b}, g.Blocks...)
	return with, len(with.Blocks) <= maxBlocks
}
