package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// addresses assigns a virtual address from the group's blocks to each Slot of the group that has
// none. It returns the blocks after the assignment. A Slot keeps an address that it has.
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
			// An adopted sibling has this address: the next block provides another.
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

// book holds the virtual addresses in use. Under one Lease only its holder assigns addresses, so
// the leader reads them once and then adds to them.
type book struct {
	mu   turn
	used address.Used // guarded by mu
	term uint64       // guarded by mu; of the Lease that used was read under
	at   time.Time    // guarded by mu; when used was read
}

// bookFor is the highest age of the book. Addresses that were freed meanwhile are not assigned.
const bookFor = time.Hour

// usedLocked returns the addresses in use, including this group's own.
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

// addressesOps write the group's blocks where they differ from the record.
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

// addressesKept is how long the addresses of a removed group stay reserved.
const addressesKept = 24 * time.Hour

// oldAddresses ends the blocks of groups without any record left. The first sweep records since
// when they are unused; a day later they are freed.
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
