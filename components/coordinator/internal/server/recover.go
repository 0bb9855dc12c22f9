package server

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// Recover implements RecoveryService. It needs Consul and works without a leader.
func (s *Server) Recover(ctx context.Context, req *apiv1.RecoverRequest) (*apiv1.RecoverResponse, error) {
	c, err := s.decider(ctx, store.RecoverKey(), "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	now, err := s.cfg.Watermark.State(ctx)
	if err != nil {
		return nil, wire(err)
	}
	out := &apiv1.RecoverResponse{
		Term: now.Term, State: now.State, SeenTerm: now.SeenTerm, SeenState: now.SeenState,
		Agents: uint32(max(now.Agents.Agents, 0)), MostTerm: now.Agents.Most.Term, MostState: now.Agents.Most.State,
		AnyTerm: now.Agents.Any.Term, AnyState: now.Agents.Any.State,
	}
	out.RaisedTerm, out.RaisedState = now.Above()
	if now.Halted != nil {
		out.Halted = now.Halted.Error()
	}
	raised := store.Recovery{Term: max(out.GetRaisedTerm(), 1), State: out.GetRaisedState(), Reason: req.GetReason(), By: c.by, At: s.cfg.Now().UTC()}
	out.RaisedTerm = raised.Term
	switch {
	case req.GetDryRun():
		return out, nil
	case strings.TrimSpace(req.GetReason()) == "":
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	case now.Halted == nil:
		return out, nil // the records are as far as the highest watermark seen: no recovery is needed
	}
	if err := raised.Check(); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s; this one can be written by hand at %s", err, store.RecoverKey())
	}
	if err := c.raise(ctx, raised); err != nil {
		return nil, err
	}
	s.cfg.Log.Warn("an operator recovered the cluster", "term", raised.Term, "state", raised.State, "by", raised.By, "reason", raised.Reason, "error", now.Halted)
	out.Raised = true
	return out, nil
}

// raise writes the record in place of an older one, as an act of the caller.
func (c *caller) raise(ctx context.Context, raised store.Recovery) error {
	_, index, err := store.Read[store.Recovery](ctx, c.store, store.RecoverKey())
	if err != nil && !errors.Is(err, store.ErrNotFound) && index == 0 {
		return wire(err)
	}
	op, err := store.Put(store.RecoverKey(), raised, index)
	if err != nil {
		return wire(err)
	}
	return wire(c.act(ctx, "accept-restore", "", raised.Reason, op))
}
