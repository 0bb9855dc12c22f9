package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
)

// pausingAgent answers as configured, or else that it paused the route "r", and records its calls.
type pausingAgent struct {
	controlv1.AgentServiceClient

	routes []*controlv1.PausedRoute
	silent bool

	mu       sync.Mutex
	held     []string
	released []string
}

func (a *pausingAgent) PauseRoutes(ctx context.Context, r *controlv1.PauseRoutesRequest, _ ...grpc.CallOption) (*controlv1.PauseRoutesResponse, error) {
	if a.silent {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, r.GetGroup()+"/"+r.GetOperationId())
	if a.routes == nil {
		return &controlv1.PauseRoutesResponse{Routes: []*controlv1.PausedRoute{{Route: "r", Paused: true}}}, nil
	}
	return &controlv1.PauseRoutesResponse{Routes: a.routes}, nil
}

func (a *pausingAgent) ResumeRoutes(_ context.Context, r *controlv1.ResumeRoutesRequest, _ ...grpc.CallOption) (*controlv1.ResumeRoutesResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = append(a.released, r.GetGroup()+"/"+r.GetOperationId()+"/"+r.GetLeader())
	return &controlv1.ResumeRoutesResponse{}, nil
}

// handover is a View in which "op" drains pg-0, and three groups dial routes. The route of app
// follows the leader, the route of page leads to any member, and other dials another group.
func handover(phase operation.Phase) *view.View {
	v := records(step("op", phase, time.Unix(1000, 0), 40))
	to := func(caller, server, role string) view.Rec[group.ServiceMesh] {
		return view.Rec[group.ServiceMesh]{Value: group.ServiceMesh{Group: caller, Routes: []group.RouteTo{{Name: "r", Group: server, Role: role, VIP: netip.MustParseAddr("127.10.0.1"), Hold: group.Duration(time.Second)}}}}
	}
	v.ServiceMeshes = map[string]view.Rec[group.ServiceMesh]{"app": to("app", "pg", "leader"), "page": to("page", "pg", ""), "other": to("other", "web", "leader")}
	for _, slot := range []string{"app-0", "app-1", "page-0"} {
		name, _, _ := strings.Cut(slot, "-")
		v.Admissions[slot] = view.Rec[policy.Admission]{Value: policy.Admission{Group: name, Slot: slot, BootID: "boot"}}
	}
	return v
}

// fixed is a View that never changes.
type fixed struct {
	*view.Watcher // nil: there is no subscriber

	v *view.View
}

func (f fixed) Latest() (*view.View, <-chan struct{}) { return f.v, nil }

// serving is a Service with the View v.
func serving(v *view.View) *Service {
	ended := func(context.Context, string, string, string, bool) (policy.Decision, error) {
		return policy.Decision{Allowed: true}, nil
	}
	return New(fixed{v: v}, &Directory{}, reports.New(time.Now), ended, slog.New(slog.DiscardHandler))
}

func joined(s *Service, groupName, slot string, agent *pausingAgent) *pausingAgent {
	s.add(&session{group: groupName, slot: slot, wake: make(chan struct{}, 1), agent: agent})
	return agent
}

func TestCallersWaitForAHandover(t *testing.T) {
	s := serving(handover(operation.Draining))
	old := joined(s, "app", "app-0", &pausingAgent{})
	app := joined(s, "app", "app-0", &pausingAgent{})
	stuck := joined(s, "app", "app-1", &pausingAgent{routes: []*controlv1.PausedRoute{{Route: "r", Message: "transactions go on"}, {Route: "x", Paused: true}}})
	others := []*pausingAgent{joined(s, "page", "page-0", &pausingAgent{}), joined(s, "other", "other-0", &pausingAgent{}), joined(s, "pg", "pg-0", &pausingAgent{}), joined(s, "pg", "pg-2", &pausingAgent{})}
	leads := joined(s, "pg", "pg-1", &pausingAgent{})

	got, err := s.BeginHandover(from(t, "pg", "pg-0", "boot"), &controlv1.BeginHandoverRequest{OperationId: "op", Attempt: 7})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.GetPaused(), []string{"app-0"}) || !maps.Equal(got.GetNotPaused(), map[string]string{"app-1": "r: transactions go on"}) || len(got.GetNotConnected()) != 0 {
		t.Errorf("paused %v, not paused %v, not connected %v", got.GetPaused(), got.GetNotPaused(), got.GetNotConnected())
	}
	if !slices.Equal(app.held, []string{"pg/op/7"}) || len(stuck.held) != 1 {
		t.Errorf("app-0 was asked %v, app-1 %v", app.held, stuck.held)
	}
	if _, err := s.EndHandover(from(t, "pg", "pg-0", "boot"), &controlv1.EndHandoverRequest{OperationId: "op", Attempt: 7, Leader: "pg-1"}); err != nil {
		t.Fatal(err)
	}
	if len(leads.held) != 0 || !slices.Equal(leads.released, []string{"pg/op/7/pg-1"}) {
		t.Errorf("the new leader's agent was asked to hold %v and released from %v", leads.held, leads.released)
	}
	if !slices.Equal(app.released, []string{"pg/op/7/pg-1"}) || len(stuck.released) != 1 {
		t.Errorf("released: %v, %v", app.released, stuck.released)
	}
	for _, one := range append(others, old) {
		if len(one.held)+len(one.released) > 0 {
			t.Error("an unrelated agent was called")
		}
	}
}

// Only the member that an open Operation drains can make the callers of a group wait. The end of a
// hand-over is accepted at any time.
func TestOnlyADrainHolds(t *testing.T) {
	for name, c := range map[string]struct {
		phase operation.Phase
		ctx   func() context.Context
		id    string
		code  codes.Code
	}{
		"another operation":   {operation.Draining, func() context.Context { return from(t, "pg", "pg-0", "boot") }, "other", codes.FailedPrecondition},
		"an ended operation":  {operation.Done, func() context.Context { return from(t, "pg", "pg-0", "boot") }, "op", codes.FailedPrecondition},
		"a drained operation": {operation.Drained, func() context.Context { return from(t, "pg", "pg-0", "boot") }, "op", codes.FailedPrecondition},
		"no session":          {operation.Draining, t.Context, "op", codes.Unauthenticated},
	} {
		s := serving(handover(c.phase))
		app := joined(s, "app", "app-0", &pausingAgent{})
		if _, err := s.BeginHandover(c.ctx(), &controlv1.BeginHandoverRequest{OperationId: c.id}); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
		if len(app.held) > 0 {
			t.Errorf("%s: callers wait", name)
		}
	}
	v := handover(operation.Done)
	v.Admissions["pg-1"] = view.Rec[policy.Admission]{Value: policy.Admission{Group: "pg", Slot: "pg-1", BootID: "boot"}}
	s := serving(v)
	app := joined(s, "app", "app-0", &pausingAgent{})
	for slot, id := range map[string]string{"pg-0": "other", "pg-1": "op"} {
		if _, err := s.EndHandover(from(t, "pg", slot, "boot"), &controlv1.EndHandoverRequest{OperationId: id}); status.Code(err) != codes.FailedPrecondition || len(app.released) != 0 {
			t.Errorf("%s ends the hand-over of %s: %v, released %v", slot, id, err, app.released)
		}
	}
	if _, err := s.EndHandover(from(t, "pg", "pg-0", "boot"), &controlv1.EndHandoverRequest{OperationId: "op"}); err != nil || len(app.released) != 1 {
		t.Errorf("the end of a hand-over: %v, released %v", err, app.released)
	}
}

// An agent without a session, or with an incomplete answer, does not count as waiting. The same
// applies while the record of a group's routes is unreadable.
func TestAgentsThatDoNotAnswerAreNotWaiting(t *testing.T) {
	v := handover(operation.Draining)
	s := serving(v)
	s.directory.Update(v, nil, nil)
	unreadable := *v
	unreadable.ServiceMeshes = map[string]view.Rec[group.ServiceMesh]{}
	unreadable.Bad = []*store.RecordError{{Key: store.ServiceMeshKey("app"), Index: 300, Err: errors.New("odd")}}
	joined(s, "app", "app-1", &pausingAgent{routes: []*controlv1.PausedRoute{{Route: "another", Paused: true}}})
	for name, v := range map[string]*view.View{"readable": v, "unreadable": &unreadable} {
		s.views = fixed{v: v}
		got, err := s.BeginHandover(from(t, "pg", "pg-0", "boot"), &controlv1.BeginHandoverRequest{OperationId: "op", Attempt: 7})
		if err != nil || !slices.Equal(got.GetNotConnected(), []string{"app-0"}) || !maps.Equal(got.GetNotPaused(), map[string]string{"app-1": "r: its agent does not know the route"}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A member that begins again and again keeps only one call active.
func TestOneHandoverCallsAgentsAtATime(t *testing.T) {
	var calls latestCall
	first, firstDone := calls.take(t.Context(), "pg-0")
	other, otherDone := calls.take(t.Context(), "pg-1")
	second, secondDone := calls.take(t.Context(), "pg-0")
	firstDone()
	if first.Err() == nil || second.Err() != nil || other.Err() != nil {
		t.Errorf("first %v, second %v, another Slot's %v", first.Err(), second.Err(), other.Err())
	}
	_, thirdDone := calls.take(t.Context(), "pg-0")
	if second.Err() == nil {
		t.Error("the end of the first call forgot the second")
	}
	for _, done := range []func(){secondDone, thirdDone, otherDone} {
		done()
	}
	if len(calls.calls) != 0 {
		t.Errorf("left: %v", calls.calls)
	}
}

// TestASilentCallerStopsNoHandover.
func TestASilentCallerStopsNoHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(handover(operation.Draining))
		joined(s, "app", "app-0", &pausingAgent{silent: true})
		joined(s, "app", "app-1", &pausingAgent{})
		began := time.Now()
		got, err := s.BeginHandover(from(t, "pg", "pg-0", "boot"), &controlv1.BeginHandoverRequest{OperationId: "op", Attempt: 7})
		if err != nil || len(got.GetNotPaused()["app-0"]) == 0 || !slices.Equal(got.GetPaused(), []string{"app-1"}) {
			t.Errorf("%v, %v", got, err)
		}
		if took := time.Since(began); took != pauseLimit {
			t.Errorf("it took %v", took)
		}
	})
}

// TestDesiredCarriesTheMesh: a change of a group's service mesh is a new version for its agents, at
// the same Revision.
func TestDesiredCarriesTheMesh(t *testing.T) {
	v := records()
	v.ServiceMeshes = map[string]view.Rec[group.ServiceMesh]{"pg": {Index: 200, Value: group.ServiceMesh{Group: "pg", Proxies: []group.Proxy{{ID: "pg-sidecar-proxy", Service: "pg"}}}}}
	got := desired(t, v, "boot")
	var config group.AgentConfig
	if err := json.Unmarshal(got.GetConfigJson(), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.ServiceMesh.Proxies) != 1 || got.GetVersion() < 200 || config.Revision != v.Slots["pg-0"].Value.Assigned {
		t.Errorf("version %d, %+v", got.GetVersion(), config)
	}
}
