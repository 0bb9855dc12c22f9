package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// callersOf are the groups that dial routes to server which move with a role, each with those
// routes, in order.
func callersOf(meshes map[string]group.ServiceMesh, server string) map[string][]string {
	out := map[string][]string{}
	for name, mesh := range meshes {
		for _, r := range mesh.Routes {
			if r.Group == server && r.Moves() {
				out[name] = append(out[name], r.Name)
			}
		}
	}
	return out
}

func scopeOf(callers map[string][]string) Scope {
	out := Scope{}
	for name := range callers {
		out[name] = struct{}{}
	}
	return out
}

// unheard are the admitted Slots of callers that have no session among told, sorted.
func unheard(v *view.View, callers map[string][]string, told []*session) []string {
	var out []string
	for slot, a := range v.Admissions {
		if _, calls := callers[a.Value.Group]; !calls || v.Boots[slot].EndedBy(a.Value.BootID) {
			continue
		}
		if !slices.ContainsFunc(told, func(one *session) bool { return one.slot == slot }) {
			out = append(out, slot)
		}
	}
	slices.Sort(out)
	return out
}

// notHeld says which routes an agent does not hold, and why; "" when it holds all that it has
// to. One that it does not speak of is not held: its configuration may be one of before.
func notHeld(answer *controlv1.HoldRoutesResponse, routes []string) string {
	why := map[string]string{}
	for _, name := range routes {
		why[name] = "its agent does not know the route"
	}
	for _, r := range answer.GetRoutes() {
		if delete(why, r.GetRoute()); !r.GetHeld() {
			why[r.GetRoute()] = r.GetMessage()
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(why)) {
		out = append(out, fmt.Sprintf("%s: %s", name, why[name]))
	}
	return strings.Join(out, "; ")
}

// latestCall keeps one call of a kind under way for each Slot: a member that calls again and
// again has no more agents told at once than one that calls once. The zero value is ready.
type latestCall struct {
	mu    sync.Mutex
	calls map[string]*context.CancelFunc // guarded by mu; by Slot
}

// take ends the call of the Slot that is under way, and gives the context of the new one; done
// is to be called when it is over.
func (l *latestCall) take(ctx context.Context, slot string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	mine := &cancel
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string]*context.CancelFunc{}
	}
	if before := l.calls[slot]; before != nil {
		(*before)()
	}
	l.calls[slot] = mine
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls[slot] == mine {
			delete(l.calls, slot)
		}
	}
}
