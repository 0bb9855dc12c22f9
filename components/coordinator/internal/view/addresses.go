package view

import (
	"context"
	"fmt"
	"net/netip"

	"cadre.dev/core/address"
	"cadre.dev/store"
)

// readAddresses reads the address blocks of the groups. A record with an impossible block counts as
// unreadable.
func (v *View) readAddresses(ctx context.Context, at moment, errs *[]error) {
	v.Addresses = collect(ctx, at, store.AddressesPrefix, errs, func(g address.Given) string { return g.Group })
	for name, rec := range v.Addresses {
		if err := rec.Value.Check(); err != nil {
			*errs = append(*errs, &store.RecordError{Key: store.AddressesKey(name), Index: rec.Index, Err: err})
			delete(v.Addresses, name)
		}
	}
}

// AddressesOf returns the blocks of a group. It adds the addresses of Slots that no block covers:
// the group may be older than blocks, or its record may be lost.
func (v *View) AddressesOf(name string) address.Given {
	given := v.Addresses[name].Value
	given.Group = name
	for _, s := range v.SlotsOf(name) {
		given = completed(given, s.VIP, s.Ordinal)
	}
	return given
}

// completed adds the address of one of the group's ordinals to given. An address outside of all
// blocks becomes the last block, because the record is newer than the address.
func completed(given address.Given, vip string, ordinal int) address.Given {
	addr, err := netip.ParseAddr(vip)
	if err != nil {
		return given
	}
	if _, known := given.Overlapping(netip.PrefixFrom(addr, addr.BitLen())); known {
		return given
	}
	if b, ok := address.Around(addr, ordinal); ok {
		given.Blocks = append(given.Blocks[:len(given.Blocks):len(given.Blocks)], b)
	}
	return given
}

// AddressesUsed returns the addresses of all other groups: their blocks, the addresses of their
// Slots, and the addresses that Boots with lost records report. It returns an error when an
// unreadable record may name an address, because that address could be assigned twice.
func (v *View) AddressesUsed(name string) (used address.Used, err error) {
	if bad := v.BadBelow(store.AddressesPrefix, store.SlotsPrefix); bad != nil {
		return used, fmt.Errorf("virtual addresses cannot be assigned while an unreadable record may name them: %w", bad)
	}
	for other, rec := range v.Addresses {
		if other != name {
			used.AddAll(rec.Value)
		}
	}
	single := func(vip string) {
		if addr, err := netip.ParseAddr(vip); err == nil {
			used.Add(netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	for _, s := range v.Slots {
		if s.Value.Group != name {
			single(s.Value.VIP)
		}
	}
	v.AddressesProven(&used)
	return used, nil
}

// AddressesProven adds the addresses that Boots with lost records report.
func (v *View) AddressesProven(used *address.Used) {
	for _, p := range v.Proofs {
		if addr, err := netip.ParseAddr(p.Value.VIP); err == nil {
			used.Add(netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
}
