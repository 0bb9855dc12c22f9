package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// addresses gives a virtual address to each of the group's Slots that has none, from the
// group's blocks, and the blocks that it takes. What a Slot has it keeps.
func addresses(v *view.View, name string, slots []group.SlotRecord, used address.Used) (out []group.SlotRecord, given address.Given, err error) {
	given = v.AddressesOf(name)
	taken, need := map[netip.Addr]bool{}, 0
	for _, s := range slices.Concat(slots, v.SlotsOf(name)) {
		if addr, err := netip.ParseAddr(s.VIP); err == nil {
			taken[addr] = true
		}
		need = max(need, s.Ordinal+1)
	}
	if given, err = address.Allot(given, need, used); err != nil {
		return nil, given, fmt.Errorf("give virtual addresses: %w", err)
	}
	out = slices.Clone(slots)
	for i := range out {
		if out[i].VIP != "" {
			continue
		}
		addr, ok := given.Address(out[i].Ordinal, func(a netip.Addr) bool { return taken[a] })
		if !ok {
			// Siblings that were adopted have it: the next block does.
			b, err := address.Extra(given, out[i].Ordinal, used)
			if err != nil {
				return nil, given, fmt.Errorf("give %s a virtual address: %w", out[i].Slot, err)
			}
			given = b
			addr, _ = given.Address(out[i].Ordinal, func(a netip.Addr) bool { return taken[a] })
		}
		out[i].VIP = addr.String()
		taken[addr] = true
	}
	return out, given, nil
}

// book is which virtual addresses are in use. Under one Lease nobody but its holder gives
// any, so they are read once and then added to.
type book struct {
	mu   sync.Mutex
	used address.Used // guarded by mu
	term uint64       // guarded by mu; of the Lease that used is known under
	at   time.Time    // guarded by mu; when it was read
}

// bookFor is how old the book may be: what was given back meanwhile is not given.
const bookFor = time.Hour

// usedLocked is what is in use, this group's own with it.
func (p *pass) usedLocked(ctx context.Context) (address.Used, error) {
	if b := &p.book; b.term != p.lease.Term() || p.now.Sub(b.at).Abs() > bookFor {
		all, err := view.ReadAddresses(ctx, p.cfg.Store)
		if err != nil {
			return address.Used{}, err
		}
		used, err := all.AddressesUsed("")
		if err != nil {
			return address.Used{}, err
		}
		b.used, b.term, b.at = used, p.lease.Term(), p.now
	}
	used := p.book.used
	if latest, _ := p.cfg.Views.Latest(); latest != nil {
		latest.AddressesProven(&used)
	}
	return used, nil
}

// addressesOps write the group's blocks where the record says something else.
func (p *pass) addressesOps(given address.Given) ([]store.Op, error) {
	before := p.view.Addresses[p.name]
	given.UnusedSince, given.Term = time.Time{}, before.Value.Term
	if before.Index != 0 && same(before.Value, given) {
		return nil, nil
	}
	given.Term = p.lease.Term()
	put, err := store.Put(store.AddressesKey(p.name), given, before.Index)
	return []store.Op{put}, err
}

// addressesKept is how long the addresses of a group that is gone are not given to others.
const addressesKept = 24 * time.Hour

// oldAddresses are the blocks of groups of which nothing is left: first it is noted since
// when, and a day later they are free.
func (r *Reconciler) oldAddresses(v *view.View, term uint64) []store.Op {
	left := map[string]bool{}
	for _, name := range v.Known() {
		left[name] = true
	}
	for _, s := range v.Slots {
		left[s.Value.Group] = true
	}
	for _, p := range v.Proofs {
		left[p.Value.Group] = true
	}
	if v.BadBelow(store.SlotsPrefix, store.ProofsPrefix, store.GroupsPrefix) != nil {
		return nil
	}
	var ops []store.Op
	for name, rec := range v.Addresses {
		given := rec.Value
		switch now := r.cfg.Now().UTC(); {
		case left[name]:
		case given.UnusedSince.IsZero() || given.UnusedSince.After(now):
			given.UnusedSince, given.Term = now, term
			if put, err := store.Put(store.AddressesKey(name), given, rec.Index); err == nil {
				ops = append(ops, put)
			}
		case now.Sub(given.UnusedSince) > addressesKept:
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.AddressesKey(name), Index: rec.Index})
		}
	}
	return ops
}
