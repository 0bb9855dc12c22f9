package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const (
	// holdLimit is how long callers' agents have to hold: a pooler waits for transactions for
	// up to 2 s. It is less than the agent that hands over waits for the answer.
	holdLimit = 2500 * time.Millisecond
	// releaseLimit bounds the telling that a hand-over ended; the hold's own limit follows.
	releaseLimit = time.Second
)

// BeginHandover implements CoordinatorService: it has the agents of callers hold, and
// answers when they do. It keeps nothing: who holds, and until when, the agents know.
func (s *Service) BeginHandover(ctx context.Context, req *controlv1.BeginHandoverRequest) (*controlv1.BeginHandoverResponse, error) {
	id, v, err := s.handingOver(ctx, req.GetOperationId())
	if err != nil {
		return nil, err
	}
	ctx, done := s.begins.take(ctx, id.Slot)
	defer done()
	var (
		mu     sync.Mutex
		out    = &controlv1.BeginHandoverResponse{NotHolding: map[string]string{}}
		routes = callersOf(s.directory.ServiceMeshes(v), id.Group)
		to     = s.newestOf(scopeOf(routes))
		hold   = &controlv1.HoldRoutesRequest{Group: id.Group, OperationId: tryOf(req)}
	)
	out.Unheard = unheard(v, routes, to)
	s.tell(ctx, to, holdLimit, func(ctx context.Context, one *session) {
		answer, err := one.agent.HoldRoutes(ctx, hold)
		why := notHeld(answer, routes[one.group])
		if err != nil {
			why = "its agent does not answer: " + status.Convert(err).Message()
		}
		mu.Lock()
		defer mu.Unlock()
		if why == "" {
			out.Holding = append(out.Holding, one.slot)
			return
		}
		clip(&why)
		out.NotHolding[one.slot] = why
	})
	slices.Sort(out.Holding)
	s.log.Info("callers were told to wait for a hand-over", "slot", id.Slot, "operation", req.GetOperationId(),
		"waiting", len(out.GetHolding()), "not_waiting", len(out.GetNotHolding()), "unheard", len(out.GetUnheard()))
	return out, nil
}

// EndHandover implements CoordinatorService.
func (s *Service) EndHandover(ctx context.Context, req *controlv1.EndHandoverRequest) (*controlv1.EndHandoverResponse, error) {
	id, _, v, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if len(req.GetLeader()) > maxName {
		return nil, status.Errorf(codes.InvalidArgument, "end of a hand-over: leader: has more than %d bytes", maxName)
	}
	// The Operation may have gone on meanwhile, so any phase will do. One of another Slot must
	// not: whoever is admitted to the group could let the callers of a hand-over go too early.
	if !slices.ContainsFunc(v.OperationsOf(id.Slot), func(o view.Rec[operation.Operation]) bool { return o.Value.ID == req.GetOperationId() }) {
		return nil, status.Errorf(codes.FailedPrecondition, "end of a hand-over: %.64q is not an operation of %s, as far as this coordinator knows", req.GetOperationId(), id.Slot)
	}
	ctx, done := s.ends.take(ctx, id.Slot)
	defer done()
	release := &controlv1.ReleaseRoutesRequest{Group: id.Group, OperationId: tryOf(req), Leader: req.GetLeader()}
	tell := func(ctx context.Context, one *session) {
		if _, err := one.agent.ReleaseRoutes(ctx, release); err != nil {
			s.log.Warn("an agent was not told that a hand-over ended", "slot", one.slot, "operation", req.GetOperationId(), "error", err)
		}
	}
	// Callers wait for what the new leader's agent says of it, which looks once a second.
	callers := s.newestOf(scopeOf(callersOf(s.directory.ServiceMeshes(v), id.Group)))
	s.tell(ctx, append(s.sessionsOf(id.Group, req.GetLeader()), callers...), releaseLimit, tell)
	return &controlv1.EndHandoverResponse{}, nil
}

// tryOf names one try of a hand-over to callers' agents: a hold of a name that was released is
// late to them.
func tryOf(req interface {
	GetOperationId() string
	GetAttempt() uint32
}) string {
	return fmt.Sprintf("%s/%d", req.GetOperationId(), req.GetAttempt())
}

// handingOver is who calls, if its Slot has this Operation open and is being drained.
func (s *Service) handingOver(ctx context.Context, id string) (overlay.ID, *view.View, error) {
	who, _, v, err := s.caller(ctx)
	if err != nil {
		return who, nil, err
	}
	op, open := v.OpenOperation(who.Slot)
	if !open || op.Value.ID != id || op.Value.Phase != operation.Draining {
		return who, nil, status.Errorf(codes.FailedPrecondition, "hand-over: %.64q is not an operation that drains %s now, as far as this coordinator knows", id, who.Slot)
	}
	return who, v, nil
}

// tell calls f for each session, all at once, and waits for all of them.
func (s *Service) tell(ctx context.Context, to []*session, limit time.Duration, f func(context.Context, *session)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var telling sync.WaitGroup
	for _, one := range to {
		telling.Go(func() { f(ctx, one) })
	}
	telling.Wait()
}

// newestOf is the newest session of each Slot of groups, sorted by Slot.
func (s *Service) newestOf(groups Scope) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := map[string]*session{}
	for one := range s.ofLocked(groups) {
		if before := newest[one.slot]; before == nil || one.number > before.number {
			newest[one.slot] = one
		}
	}
	out := make([]*session, 0, len(newest))
	for _, slot := range slices.Sorted(maps.Keys(newest)) {
		out = append(out, newest[slot])
	}
	return out
}

// sessionsOf is the newest session of a Slot of a group, if there is one.
func (s *Service) sessionsOf(groupName, slot string) []*session {
	all := s.newestOf(Scope{groupName: struct{}{}})
	return slices.DeleteFunc(all, func(one *session) bool { return one.slot != slot })
}
