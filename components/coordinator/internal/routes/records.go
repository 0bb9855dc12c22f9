package routes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/route"
	"cadre.dev/store"
)

// batch is the maximum number of records in one transaction.
const batch = 32

// record writes the records that differ.
func (w *Writer) record(ctx context.Context, lease store.Lease, v *view.View, d route.Decided) (wrote bool, err error) {
	var ops []store.Op
	for _, name := range slices.Sorted(maps.Keys(d.Routes)) {
		r := d.Routes[name]
		r.Term = lease.Term()
		op, err := store.Put(store.RouteKey(name), r, v.Routes[name].Index)
		if err != nil {
			return wrote, fmt.Errorf("record the address of route %s: %w", name, err)
		}
		ops = append(ops, op)
	}
	for some := range slices.Chunk(ops, batch) {
		if err := w.cfg.Store.Commit(ctx, append(lease.Fence(), some...)...); err != nil {
			return wrote, fmt.Errorf("record addresses of routes: %w", err)
		}
		wrote = true
	}
	for _, name := range slices.Sorted(maps.Keys(d.Routes)) {
		w.log.Info("route has an address", "route", name, "group", d.Routes[name].Group, "vip", d.Routes[name].VIP.String())
	}
	// A write that fails for one group does not stop the others.
	var errs []error
	for _, name := range meshNames(v, d) {
		op, guard, differs, err := mesh(lease, v, d, name)
		if err == nil && differs {
			err = w.cfg.Store.Commit(ctx, append(append(lease.Fence(), guard...), op)...)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("record the part of group %s: %w", name, err))
		case differs:
			wrote = true
			w.log.Info("group has another part in the service layer", "group", name, "proxies", len(d.ServiceMeshes[name].Proxies), "routes", len(d.ServiceMeshes[name].Routes))
		}
	}
	return wrote, errors.Join(errs...)
}

// meshNames returns the groups that have a part in the service layer, or had one.
func meshNames(v *view.View, d route.Decided) []string {
	names := map[string]bool{}
	for name := range d.ServiceMeshes {
		names[name] = true
	}
	for name := range v.ServiceMeshes {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// mesh is the write of one group's part. The guard makes it fail when the group was removed or
// created meanwhile: the group's records in v may be newer than the part.
func mesh(lease store.Lease, v *view.View, d route.Decided, name string) (op store.Op, guard []store.Op, differs bool, err error) {
	before, had := v.ServiceMeshes[name]
	// The index of an accepted spec that is unreadable counts: its group exists.
	accepted, stored := v.IndexOf(store.GroupAcceptedKey(name), v.Accepted[name].Index), v.Specs[name]
	switch {
	case accepted != 0:
		guard = []store.Op{{Kind: store.OpCheckIndex, Key: store.GroupAcceptedKey(name), Index: accepted}}
	case stored.Index != 0:
		guard = []store.Op{{Kind: store.OpCheckIndex, Key: store.GroupSpecKey(name), Index: stored.Index}}
	default:
		return store.Op{Kind: store.OpDeleteCAS, Key: store.ServiceMeshKey(name), Index: before.Index}, []store.Op{
			{Kind: store.OpCheckAbsent, Key: store.GroupAcceptedKey(name)}, {Kind: store.OpCheckAbsent, Key: store.GroupSpecKey(name)},
		}, true, nil
	}
	next := d.ServiceMeshes[name]
	next.Group, next.Term = name, before.Value.Term
	if had && alike(before.Value, next) {
		return store.Op{}, nil, false, nil
	}
	next.Term = lease.Term()
	op, err = store.Put(store.ServiceMeshKey(name), next, before.Index)
	return op, guard, true, err
}

func alike(a, b group.ServiceMesh) bool {
	one, _ := json.Marshal(a) // plain data always encodes
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}
