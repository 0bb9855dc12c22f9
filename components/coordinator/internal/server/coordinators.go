package server

import (
	"context"
	"errors"
	"regexp"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/voters"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// Coordinators has the needs of CoordinatorsService in this coordinator. All fields are required.
type Coordinators struct {
	ComposeHash, BootID string
	// Sessions is the number of members with an open control session here, and Connected the other
	// coordinators to which a session of the overlay is open.
	Sessions  func() int
	Connected func() []string
	// StepDown gives the Lease up; false: this coordinator did not hold it.
	StepDown func(ctx context.Context) (bool, error)
	Voters   *voters.Voters
}

// coordinatorsRight is the key whose writers may change coordinators. No record has it.
const coordinatorsRight = store.ControlPrefix + "coordinators"

// coordinatorName is the name of a coordinator's Slot.
var coordinatorName = regexp.MustCompile(`^coordinator-[0-9]{1,3}$`)

// changesCoordinators is caller for a caller that may change the coordinators.
func (s *Server) changesCoordinators(ctx context.Context) (*caller, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	key := store.DefaultPrefix + coordinatorsRight
	switch ok, err := s.cfg.Tokens.MayWrite(ctx, c.token, key); {
	case err != nil:
		return nil, wire(err)
	case !ok:
		return nil, status.Errorf(codes.PermissionDenied, "a change of coordinators needs the right to write %s", key)
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, wire(err)
	}
	return c, nil
}

// GetCoordinators implements CoordinatorsService.
func (s *Server) GetCoordinators(ctx context.Context, _ *apiv1.GetCoordinatorsRequest) (*apiv1.GetCoordinatorsResponse, error) {
	c, err := s.changesCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	own := s.cfg.Coordinators
	out := &apiv1.GetCoordinatorsResponse{
		Self: s.cfg.Slot, Version: s.cfg.Version, ComposeHash: own.ComposeHash, BootId: own.BootID,
		Sessions: uint32(max(own.Sessions(), 0)), Connected: own.Connected(),
	}
	if out.Leader, out.Term, err = c.store.Holder(ctx); err != nil {
		return nil, wire(err)
	}
	if now, err := s.cfg.Watermark.State(ctx); err == nil && now.Halted != nil {
		out.Halted = now.Halted.Error()
	}
	servers, err := own.Voters.List(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	for _, one := range servers {
		out.Servers = append(out.Servers, &apiv1.ConsulServer{Node: one.Node, Voter: one.Voter, Leader: one.Leader, Healthy: one.Healthy})
	}
	return out, nil
}

// StepDown implements CoordinatorsService. The Lease goes first: its release is a write, which fails
// during an election of Raft.
func (s *Server) StepDown(ctx context.Context, req *apiv1.StepDownRequest) (*apiv1.StepDownResponse, error) {
	if to := req.GetRaftTo(); to != "" && (to == s.cfg.Slot || !coordinatorName.MatchString(to)) {
		return nil, status.Errorf(codes.InvalidArgument, "raft_to: %.80q: want another coordinator than %s, such as coordinator-1", to, s.cfg.Slot)
	}
	c, err := s.changesCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.enter(ctx, "step-down", "", s.cfg.Slot, store.Op{Kind: store.OpCheckAbsent, Key: coordinatorsRight}); err != nil {
		return nil, wire(err)
	}
	s.cfg.Log.Warn("an operator has this coordinator step down", "by", c.by)
	out := &apiv1.StepDownResponse{}
	if out.Lease, err = s.cfg.Coordinators.StepDown(ctx); err != nil {
		return nil, wire(err)
	}
	if out.Raft, err = s.cfg.Coordinators.Voters.Transfer(ctx, s.cfg.Slot, req.GetRaftTo()); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return out, nil
}

// RemoveVoter implements CoordinatorsService.
func (s *Server) RemoveVoter(ctx context.Context, req *apiv1.RemoveVoterRequest) (*apiv1.RemoveVoterResponse, error) {
	slot := req.GetSlot()
	if slot == s.cfg.Slot || !coordinatorName.MatchString(slot) {
		return nil, status.Errorf(codes.InvalidArgument, "slot: %.80q: want another coordinator than %s, such as coordinator-1", slot, s.cfg.Slot)
	}
	c, err := s.changesCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.enter(ctx, "remove-voter", "", slot, store.Op{Kind: store.OpCheckAbsent, Key: coordinatorsRight}); err != nil {
		return nil, wire(err)
	}
	removed, err := s.cfg.Coordinators.Voters.Remove(ctx, slot)
	switch {
	case errors.Is(err, voters.ErrHealthy), errors.Is(err, voters.ErrOthersBad):
		return nil, status.Errorf(codes.FailedPrecondition, "slot: %s is not removed: %s", slot, err)
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s.cfg.Log.Warn("an operator removed a coordinator's voter", "slot", slot, "by", c.by, "removed", removed)
	return &apiv1.RemoveVoterResponse{Removed: removed}, nil
}
