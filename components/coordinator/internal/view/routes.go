package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
	"cadre.dev/store"
)

// readRoutes reads the service layer. A record that says something impossible is as good as
// unreadable.
func (v *View) readRoutes(ctx context.Context, at moment, errs *[]error) {
	refuse := func(key string, index uint64, err error) {
		*errs = append(*errs, &store.RecordError{Key: key, Index: index, Err: err})
	}
	v.Routes = map[string]Rec[route.Record]{}
	for key, rec := range keyed[route.Record](ctx, at, store.RoutesPrefix, errs) {
		name := strings.TrimPrefix(key, store.RoutesPrefix)
		if err := rec.Value.Check(name); err != nil {
			refuse(key, rec.Index, err)
			continue
		}
		v.Routes[name] = rec
	}
	v.Meshes = map[string]Rec[group.Mesh]{}
	for key, rec := range keyed[group.Mesh](ctx, at, store.MeshPrefix, errs) {
		name := strings.TrimPrefix(key, store.MeshPrefix)
		if err := rec.Value.Check(name); err != nil {
			refuse(key, rec.Index, err)
			continue
		}
		v.Meshes[name] = rec
	}
}

// MeshOf is the part of a group in the service layer, zero while it has none. index grows
// with each change of the record, also with one that makes it unreadable; then ok is false,
// and whoever has the part that it was before keeps it.
func (v *View) MeshOf(name string) (mesh group.Mesh, index uint64, ok bool) {
	for _, bad := range v.Bad {
		if bad.Key == store.MeshKey(name) {
			return group.Mesh{}, bad.Index, false
		}
	}
	rec := v.Meshes[name]
	return rec.Value, rec.Index, true
}

// RoutesKnown is what the service layer is decided by. Only accepted specs count: what is
// stored, and was refused or not judged yet, gets no address. An error when a record cannot
// be read that something may have: it would be taken from it, or given a second time.
func (v *View) RoutesKnown() (route.Known, error) {
	var unreadable []error
	for _, bad := range v.Bad {
		accepted := strings.HasPrefix(bad.Key, store.GroupsPrefix) && strings.HasSuffix(bad.Key, "/accepted")
		if accepted || strings.HasPrefix(bad.Key, store.RoutesPrefix) || strings.HasPrefix(bad.Key, store.MeshPrefix) {
			unreadable = append(unreadable, bad)
		}
	}
	if len(unreadable) > 0 {
		return route.Known{}, fmt.Errorf("routes are not decided while a record of them cannot be read, repair or delete it: %w", errors.Join(unreadable...))
	}
	out := route.Known{
		Specs: make(map[string]group.Spec, len(v.Accepted)), Accepted: make(map[string]uint64, len(v.Accepted)),
		Routes: make(map[string]route.Record, len(v.Routes)), Meshes: make(map[string]group.Mesh, len(v.Meshes)),
	}
	for name, a := range v.Accepted {
		out.Specs[name], out.Accepted[name] = a.Value, a.Index
	}
	for name := range v.Meshes {
		// It was accepted once; that record is lost, and the group is still there.
		if spec, index, ok := v.InForce(name); ok && out.Accepted[name] == 0 {
			out.Specs[name], out.Accepted[name] = spec, index
		}
	}
	whose := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(v.Routes)) {
		r := v.Routes[name].Value
		if other, twice := whose[r.VIP]; twice {
			return route.Known{}, fmt.Errorf("routes are not decided while %s and %s both have the address %s: delete the record of the one that shall get another", store.RouteKey(other), store.RouteKey(name), r.VIP)
		}
		whose[r.VIP], out.Routes[name] = name, r
	}
	for name, m := range v.Meshes {
		out.Meshes[name] = m.Value
	}
	return out, nil
}
