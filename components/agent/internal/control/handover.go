package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const (
	// beginLimit bounds BeginHandover: callers' agents have 2.5 s.
	beginLimit = 3 * time.Second
	// endLimit bounds EndHandover: an agent without a notice releases at the limit of the hold.
	endLimit = time.Second
)

// BeginHandover asks all connected coordinators to have the agents of callers pause the routes that
// follow this Slot's role. Each coordinator reaches the agents with a session to it. BeginHandover
// returns when the answers cover every caller, or all coordinators have answered: 3 s at most. It
// returns an error if no coordinator succeeded; then no route is known to be paused.
func (h *Hub) BeginHandover(ctx context.Context, operation string, attempt uint32) (PausedCallers, error) {
	all := h.sessionsNow()
	if len(all) == 0 {
		return PausedCallers{}, ErrNoSession
	}
	// The remaining calls continue: a coordinator that receives one after the hand-over ignores it.
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	answers := make(chan answered, len(all))
	var asking sync.WaitGroup
	for _, s := range all {
		asking.Go(func() {
			out, err := s.client.BeginHandover(ctx, &controlv1.BeginHandoverRequest{OperationId: operation, Attempt: attempt})
			if err != nil {
				err = fmt.Errorf("begin hand-over with %s: %w", s.peer.Slot, err)
			}
			answers <- answered{out, err}
		})
	}
	go func() {
		asking.Wait()
		cancel()
	}()
	var sum callerAnswers
	for range all {
		if sum.add(<-answers); sum.whole() {
			break
		}
	}
	return sum.sum()
}

// EndHandover reports the present leader to every connected coordinator, "" when it is not known.
// One coordinator's success is enough. EndHandover takes a second at most.
func (h *Hub) EndHandover(ctx context.Context, operation string, attempt uint32, leader string) error {
	all := h.sessionsNow()
	if len(all) == 0 {
		return ErrNoSession
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() {
			if _, err := s.client.EndHandover(ctx, &controlv1.EndHandoverRequest{OperationId: operation, Attempt: attempt, Leader: leader}); err != nil {
				errs[i] = fmt.Errorf("end hand-over with %s: %w", s.peer.Slot, err)
			}
		})
	}
	asking.Wait()
	return anyDone(errs)
}

// anyDone is nil when at least one call succeeded.
func anyDone(errs []error) error {
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

// RoutePauser pauses this CVM's calls to another group while its leadership moves. Its methods are
// idempotent by group and operation.
type RoutePauser interface {
	// Pause returns when each route is paused or has failed to pause, within a few seconds.
	Pause(ctx context.Context, group, operation string) []PausedRoute
	// Release starts to resume the calls; leader is the Slot that leads now, "" when that is
	// unknown. The leader's own agent is notified too.
	Release(group, operation, leader string)
}

// PausedRoute is the result of a pause on one route.
type PausedRoute struct {
	Route   string
	Paused  bool
	Message string
}

// PauseRoutes implements AgentService.
func (w *wakeServer) PauseRoutes(ctx context.Context, r *controlv1.PauseRoutesRequest) (*controlv1.PauseRoutesResponse, error) {
	out := &controlv1.PauseRoutesResponse{}
	if w.hub.cfg.Pauser == nil {
		return out, nil
	}
	for _, one := range w.hub.cfg.Pauser.Pause(ctx, r.GetGroup(), r.GetOperationId()) {
		out.Routes = append(out.Routes, &controlv1.PausedRoute{Route: one.Route, Paused: one.Paused, Message: one.Message})
	}
	return out, nil
}

// ResumeRoutes implements AgentService.
func (w *wakeServer) ResumeRoutes(_ context.Context, r *controlv1.ResumeRoutesRequest) (*controlv1.ResumeRoutesResponse, error) {
	if w.hub.cfg.Pauser != nil {
		w.hub.cfg.Pauser.Release(r.GetGroup(), r.GetOperationId(), r.GetLeader())
	}
	return &controlv1.ResumeRoutesResponse{}, nil
}
