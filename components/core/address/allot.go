package address

import "fmt"

// Allot returns g with enough additional blocks to give each ordinal below replicas an address. The
// blocks are free in others and in g. Without room Allot returns g unchanged and ErrExhausted.
// Allot does not change others.
//
// The first block of a group is as small as possible, and each further one at least as large as all
// blocks before it, so that a group that grows by single members has few blocks.
func Allot(g Given, replicas int, others Used) (Given, error) {
	next := g.without(0, replicas)
	if next >= replicas {
		return g, nil
	}
	others.Add(Fixed)
	others.AddAll(g)
	total := 0
	for _, b := range g.Blocks {
		total += b.size()
	}
	out := g
	out.Blocks = append([]Block(nil), g.Blocks...)
	for next < replicas {
		first := (next+1)/least*least - 1
		size := least
		for size < most && (size < total || first+size < replicas) {
			size *= 2
		}
		net, ok := others.free(size)
		if !ok {
			return g, fmt.Errorf("%w: group %s needs %d in %s", ErrExhausted, g.Group, size, Space)
		}
		if len(out.Blocks) == maxBlocks {
			return g, fmt.Errorf("%w: group %s has %d blocks already", ErrExhausted, g.Group, maxBlocks)
		}
		out.Blocks = append(out.Blocks, Block{First: first, Net: net})
		others.Add(net)
		total += size
		next = out.without(next, replicas)
	}
	return out, nil
}

// Extra returns g with one more block that has an address for this ordinal. It is used when the
// ordinal's addresses in g are taken.
func Extra(g Given, ordinal int, others Used) (Given, error) {
	others.Add(Fixed)
	others.AddAll(g)
	net, ok := others.free(least)
	if !ok || len(g.Blocks) >= maxBlocks {
		return g, fmt.Errorf("%w: group %s has %d blocks", ErrExhausted, g.Group, len(g.Blocks))
	}
	g.Blocks = append(append([]Block(nil), g.Blocks...), Block{First: (ordinal+1)/least*least - 1, Net: net})
	return g, nil
}

// without is the first ordinal from begin on that no block has; end when all below have one.
func (g Given) without(begin, end int) int {
	for ; begin < end; begin++ {
		has := false
		for _, b := range g.Blocks {
			_, ok := b.Address(begin)
			has = has || ok
		}
		if !has {
			break
		}
	}
	return begin
}
