package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ListTCB implements PolicyService. The ledger covers all groups, so only callers that may read all
// exceptions may read it.
func (s *Server) ListTCB(ctx context.Context, _ *apiv1.ListTCBRequest) (*apiv1.ListTCBResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.store.Get(ctx, store.TCBLedgerKey); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, wire(err)
	}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	overview := c.view.Ledger.Value.Overview(c.view.Gate.AskedExceptions(), s.cfg.Images.TCB.OperatorExceptions, s.cfg.Now().UTC())
	entries, _, err := c.store.List(ctx, store.CollateralPrefix)
	if err != nil {
		return nil, wire(err)
	}
	for _, entry := range entries {
		if mark, err := store.Decode[policy.CollateralWatermark](entry); err == nil {
			overview.Collateral = append(overview.Collateral, mark)
		}
	}
	text, err := encode(overview)
	return &apiv1.ListTCBResponse{OverviewJson: text}, err
}

// GrantTCBException implements PolicyService. The caller needs the right to write the record; the
// leader puts it into force and into the chain.
func (s *Server) GrantTCBException(ctx context.Context, req *apiv1.GrantTCBExceptionRequest) (*apiv1.GrantTCBExceptionResponse, error) {
	c, err := s.decider(ctx, store.TCBExceptionsPrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	now := s.cfg.Now().UTC()
	g := policy.TCBGrant{
		ID: "tcb-" + strings.ToLower(rand.Text()[:12]), Status: req.GetStatus(), Advisories: req.GetAdvisories(), FMSPC: req.GetFmspc(),
		Until: now.Add(req.GetFor().AsDuration()), Reason: req.GetReason(), By: c.by, At: now,
	}
	if err := s.cfg.Images.TCB.OperatorExceptions.Check(g, now); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if _, err := create(ctx, c, "grant-tcb-exception", g.Reason, store.TCBExceptionKey(g.ID), g); err != nil {
		return nil, err
	}
	s.cfg.Log.Info("exception for machines granted", "id", g.ID, "status", g.Status, "advisories", g.Advisories, "fmspc", g.FMSPC, "until", g.Until, "by", g.By, "reason", g.Reason)
	return &apiv1.GrantTCBExceptionResponse{Id: g.ID, Until: timestamppb.New(g.Until)}, nil
}

// RevokeTCBException implements PolicyService. The exception ends now. Its record stays until the
// leader has entered the operator into the chain.
func (s *Server) RevokeTCBException(ctx context.Context, req *apiv1.RevokeTCBExceptionRequest) (*apiv1.RevokeTCBExceptionResponse, error) {
	key := store.TCBExceptionKey(req.GetId())
	if err := store.CheckKey(key); err != nil {
		return nil, status.Error(codes.InvalidArgument, "id: "+err.Error())
	}
	c, err := s.decider(ctx, store.TCBExceptionsPrefix, "", "")
	if err != nil {
		return nil, err
	}
	g, index, err := store.Read[policy.TCBGrant](ctx, c.store, key)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && g.RevokedBy != "":
		return &apiv1.RevokeTCBExceptionResponse{}, nil
	case err != nil && index != 0:
		// The record is unreadable and has no effect, so it is removed.
		changed, err := c.remove(ctx, "revoke-tcb-exception", "", key)
		return &apiv1.RevokeTCBExceptionResponse{Changed: changed}, err
	case err != nil:
		return nil, wire(err)
	}
	g.RevokedBy = c.by
	op, err := store.Put(key, g, index)
	if err == nil {
		err = c.act(ctx, "revoke-tcb-exception", "", "", op)
	}
	if err != nil {
		return nil, wire(err)
	}
	s.cfg.Log.Info("exception for machines revoked", "id", g.ID, "by", c.by)
	return &apiv1.RevokeTCBExceptionResponse{Changed: true}, nil
}

// LowerCollateral implements PolicyService. The leader carries it out and records it.
func (s *Server) LowerCollateral(ctx context.Context, req *apiv1.LowerCollateralRequest) (*apiv1.LowerCollateralResponse, error) {
	key := store.LoweringKey(req.GetFmspc())
	if err := store.CheckKey(key); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "fmspc: %.40q is not 12 lower-case hex digits", req.GetFmspc())
	}
	c, err := s.decider(ctx, store.LoweringsPrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	mark, _, err := store.Read[policy.CollateralWatermark](ctx, c.store, store.CollateralKey(req.GetFmspc()))
	if errors.Is(err, store.ErrNotFound) {
		return nil, status.Errorf(codes.NotFound, "fmspc: no collateral of family %s was accepted, so no number is rejected", req.GetFmspc())
	}
	if err != nil {
		return nil, wire(err)
	}
	now := s.cfg.Now().UTC()
	if n := req.GetEvaluation(); n != 0 && (n >= mark.TCBEvaluation && n >= mark.QEEvaluation || now.Before(mark.Permit.Until) && mark.Permit.TCBEvaluation != 0 && n >= mark.Permit.TCBEvaluation && n >= mark.Permit.QEEvaluation) {
		return &apiv1.LowerCollateralResponse{}, nil
	}
	l := policy.CollateralLowering{
		FMSPC: req.GetFmspc(), TCBEvaluation: req.GetEvaluation(), QEEvaluation: req.GetEvaluation(), Reason: req.GetReason(), By: c.by, At: now,
	}
	if _, err := mark.Lowered(l, now); err != nil {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("evaluation: %v", err))
	}
	changed, err := create(ctx, c, "lower-collateral", l.Reason, key, l)
	if err == nil && changed {
		s.cfg.Log.Info("older collateral requested", "fmspc", l.FMSPC, "evaluation", l.TCBEvaluation, "by", l.By, "reason", l.Reason)
	}
	return &apiv1.LowerCollateralResponse{Changed: changed}, err
}
