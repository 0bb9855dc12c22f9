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

// callersOf returns the groups that dial routes to server which follow a role, each with those
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

// notConnected returns the admitted Slots of callers that have no session among notified, sorted.
func notConnected(v *view.View, callers map[string][]string, notified []*session) []string {
	var out []string
	for slot, a := range v.Admissions {
		if _, calls := callers[a.Value.Group]; !calls || v.Boots[slot].EndedBy(a.Value.BootID) {
			continue
		}
		if !slices.ContainsFunc(notified, func(one *session) bool { return one.slot == slot }) {
			out = append(out, slot)
		}
	}
	slices.Sort(out)
	return out
}

// notPaused returns the routes that an agent has not paused, with the reasons; "" if it paused all. A
// route missing in the answer counts as not paused: the agent's configuration may be outdated.
func notPaused(answer *controlv1.PauseRoutesResponse, routes []string) string {
	why := map[string]string{}
	for _, name := range routes {
		why[name] = "its agent does not know the route"
	}
	for _, r := range answer.GetRoutes() {
		if delete(why, r.GetRoute()); !r.GetPaused() {
			why[r.GetRoute()] = r.GetMessage()
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(why)) {
		out = append(out, fmt.Sprintf("%s: %s", name, why[name]))
	}
	return strings.Join(out, "; ")
}

// latestCall allows one call of a kind per Slot at a time, so that repeated calls of a member do
// not multiply the calls to agents. The zero value is ready.
type latestCall struct {
	mu    sync.Mutex
	calls map[string]*context.CancelFunc // guarded by mu; by Slot
}

// take cancels the Slot's current call and returns the context of the new one; the caller calls
// done at its end.
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
