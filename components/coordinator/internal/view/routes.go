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

// readRoutes reads the service layer. A record with impossible content counts as unreadable.
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
	v.ServiceMeshes = map[string]Rec[group.ServiceMesh]{}
	for key, rec := range keyed[group.ServiceMesh](ctx, at, store.ServiceMeshPrefix, errs) {
		name := strings.TrimPrefix(key, store.ServiceMeshPrefix)
		if err := rec.Value.Check(name); err != nil {
			refuse(key, rec.Index, err)
			continue
		}
		v.ServiceMeshes[name] = rec
	}
}

// ServiceMeshOf returns the part of a group in the service layer, zero while it has none. index
// grows with each change of the record, including a change that makes it unreadable. In that case
// ok is false, and a caller that has the previous part keeps it.
func (v *View) ServiceMeshOf(name string) (mesh group.ServiceMesh, index uint64, ok bool) {
	for _, bad := range v.Bad {
		if bad.Key == store.ServiceMeshKey(name) {
			return group.ServiceMesh{}, bad.Index, false
		}
	}
	rec := v.ServiceMeshes[name]
	return rec.Value, rec.Index, true
}

// RoutesKnown returns the input for decisions about the service layer, and the existing records
// that cannot be read; unread is the error about these. Only accepted specs count: a stored spec
// that was rejected or not yet judged gets no address.
func (v *View) RoutesKnown() (known route.Known, missing route.Missing, unread error) {
	missing, unread = v.routesMissing()
	known = route.Known{
		Specs: make(map[string]group.Spec, len(v.Accepted)), Accepted: make(map[string]uint64, len(v.Accepted)),
		Routes: make(map[string]route.Record, len(v.Routes)), ServiceMeshes: make(map[string]group.ServiceMesh, len(v.ServiceMeshes)),
	}
	for name, a := range v.Accepted {
		known.Specs[name], known.Accepted[name] = a.Value, a.Index
	}
	for name := range v.ServiceMeshes {
		// The spec was accepted once. Its record is lost, and the group still exists.
		if spec, index, ok := v.InForce(name); ok && known.Accepted[name] == 0 && !missing.Specs[name] {
			known.Specs[name], known.Accepted[name] = spec, index
		}
	}
	for name, r := range v.Routes {
		if !missing.Routes[name] {
			known.Routes[name] = r.Value
		}
	}
	for name, m := range v.ServiceMeshes {
		known.ServiceMeshes[name] = m.Value
	}
	return known, missing, unread
}

// routesMissing returns the unreadable records of the service layer. When several routes have one
// address, none of them is trusted.
func (v *View) routesMissing() (out route.Missing, err error) {
	out = route.Missing{Specs: map[string]bool{}, Routes: map[string]bool{}, ServiceMeshes: map[string]bool{}}
	var errs []error
	for _, bad := range v.Bad {
		if note(&out, bad.Key) {
			errs = append(errs, fmt.Errorf("a record of routes cannot be read, its dependents stay unchanged; repair or delete it: %w", bad))
		}
	}
	whose := map[netip.Addr]string{}
	for _, name := range slices.Sorted(maps.Keys(v.Routes)) {
		vip := v.Routes[name].Value.VIP
		if other, twice := whose[vip]; twice {
			out.Routes[other], out.Routes[name] = true, true
			errs = append(errs, fmt.Errorf("%s and %s both have the address %s: delete the record of the route that shall get another address", store.RouteKey(other), store.RouteKey(name), vip))
		}
		whose[vip] = name
	}
	return out, errors.Join(errs...)
}

// note adds the record at key to the missing ones. It returns false when the key is not of routes.
func note(m *route.Missing, key string) bool {
	for prefix, of := range map[string]map[string]bool{store.ServiceMeshPrefix: m.ServiceMeshes, store.RoutesPrefix: m.Routes} {
		if name, is := strings.CutPrefix(key, prefix); is {
			of[name] = true
			return true
		}
	}
	name, is := strings.CutSuffix(key, "/accepted")
	if name, below := strings.CutPrefix(name, store.GroupsPrefix); is && below {
		m.Specs[name] = true
		return true
	}
	return false
}
