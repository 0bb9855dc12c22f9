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
	// pauseLimit bounds the time in which callers' agents must pause: a pooler waits for transactions
	// for up to 2 s. The limit is shorter than the wait of the agent that hands over.
	pauseLimit = 2500 * time.Millisecond
	// resumeLimit bounds the calls at the end of a hand-over; after a missed call the pause's own
	// limit applies.
	resumeLimit = time.Second
)

// BeginHandover implements CoordinatorService. BeginHandover asks the agents of callers to pause
// their routes, and answers when they have. BeginHandover stores nothing: each agent knows its own
// pause and its limit.
func (s *Service) BeginHandover(ctx context.Context, req *controlv1.BeginHandoverRequest) (*controlv1.BeginHandoverResponse, error) {
	id, v, err := s.handingOver(ctx, req.GetOperationId())
	if err != nil {
		return nil, err
	}
	ctx, done := s.begins.take(ctx, id.Slot)
	defer done()
	var (
		mu     sync.Mutex
		out    = &controlv1.BeginHandoverResponse{NotPaused: map[string]string{}}
		routes = callersOf(s.directory.ServiceMeshes(v), id.Group)
		to     = s.newestOf(scopeOf(routes))
		pause  = &controlv1.PauseRoutesRequest{Group: id.Group, OperationId: tryOf(req)}
	)
	out.NotConnected = notConnected(v, routes, to)
	s.callAll(ctx, to, pauseLimit, func(ctx context.Context, one *session) {
		answer, err := one.agent.PauseRoutes(ctx, pause)
		why := notPaused(answer, routes[one.group])
		if err != nil {
			why = "its agent does not answer: " + status.Convert(err).Message()
		}
		mu.Lock()
		defer mu.Unlock()
		if why == "" {
			out.Paused = append(out.Paused, one.slot)
			return
		}
		truncateText(&why)
		out.NotPaused[one.slot] = why
	})
	slices.Sort(out.Paused)
	s.log.Info("callers were asked to wait for a hand-over", "slot", id.Slot, "operation", req.GetOperationId(),
		"waiting", len(out.GetPaused()), "not_waiting", len(out.GetNotPaused()), "not_connected", len(out.GetNotConnected()))
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
	// Any phase is accepted, because the Operation may have continued meanwhile. An Operation of
	// another Slot is rejected: a member of the group could otherwise end the hold of another
	// member's hand-over.
	if !slices.ContainsFunc(v.OperationsOf(id.Slot), func(o view.Rec[operation.Operation]) bool { return o.Value.ID == req.GetOperationId() }) {
		return nil, status.Errorf(codes.FailedPrecondition, "end of a hand-over: %.64q is not an operation of %s, as far as this coordinator knows", req.GetOperationId(), id.Slot)
	}
	ctx, done := s.ends.take(ctx, id.Slot)
	defer done()
	resume := &controlv1.ResumeRoutesRequest{Group: id.Group, OperationId: tryOf(req), Leader: req.GetLeader()}
	notify := func(ctx context.Context, one *session) {
		if _, err := one.agent.ResumeRoutes(ctx, resume); err != nil {
			s.log.Warn("an agent was not notified of the end of a hand-over", "slot", one.slot, "operation", req.GetOperationId(), "error", err)
		}
	}
	// Callers wait for the report of the new leader's agent, which checks its role once a second.
	callers := s.newestOf(scopeOf(callersOf(s.directory.ServiceMeshes(v), id.Group)))
	s.callAll(ctx, append(s.sessionsOf(id.Group, req.GetLeader()), callers...), resumeLimit, notify)
	return &controlv1.EndHandoverResponse{}, nil
}

// tryOf names one try of a hand-over for callers' agents: they ignore a hold with a name that was
// already released.
func tryOf(req interface {
	GetOperationId() string
	GetAttempt() uint32
}) string {
	return fmt.Sprintf("%s/%d", req.GetOperationId(), req.GetAttempt())
}

// handingOver returns the caller, if its Slot has this Operation open and is being drained.
func (s *Service) handingOver(ctx context.Context, id string) (overlay.ID, *view.View, error) {
	caller, _, v, err := s.caller(ctx)
	if err != nil {
		return caller, nil, err
	}
	op, open := v.OpenOperation(caller.Slot)
	if !open || op.Value.ID != id || op.Value.Phase != operation.Draining {
		return caller, nil, status.Errorf(codes.FailedPrecondition, "hand-over: %.64q is not an operation that drains %s now, as far as this coordinator knows", id, caller.Slot)
	}
	return caller, v, nil
}

// callAll calls f for each session concurrently, and waits for all calls.
func (s *Service) callAll(ctx context.Context, to []*session, limit time.Duration, f func(context.Context, *session)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var calls sync.WaitGroup
	for _, one := range to {
		calls.Go(func() { f(ctx, one) })
	}
	calls.Wait()
}

// newestOf returns the newest session of each Slot of groups, sorted by Slot.
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

// sessionsOf returns the newest session of a Slot of a group, if there is one.
func (s *Service) sessionsOf(groupName, slot string) []*session {
	all := s.newestOf(Scope{groupName: struct{}{}})
	return slices.DeleteFunc(all, func(one *session) bool { return one.slot != slot })
}
