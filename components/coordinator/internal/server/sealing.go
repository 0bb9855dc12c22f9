package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// GetSealingKey implements SealingService.
func (s *Server) GetSealingKey(ctx context.Context, req *apiv1.GetSealingKeyRequest) (*apiv1.GetSealingKeyResponse, error) {
	c, err := s.callerFor(ctx, req.GetGroup(), "")
	if err != nil {
		return nil, err
	}
	if _, err := c.sealable(ctx, req.GetGroup(), req.GetName()); err != nil {
		return nil, err
	}
	key, err := s.cfg.Root.Sealing(ctx, secrets.KeyEpoch)
	if err != nil {
		s.cfg.Log.Error("sealing key not available", "error", err)
		return nil, status.Error(codes.Unavailable, "the coordinator cannot derive the sealing key now: try again")
	}
	proof, err := s.attest(ctx, req.GetNonce(), func(own statement.Coordinator) assertion {
		return statement.SealingKey{Coordinator: own, KeyEpoch: secrets.KeyEpoch, PublicKey: key.Public()}
	})
	if err != nil {
		return nil, err
	}
	name := view.SecretName{Group: req.GetGroup(), Name: req.GetName()}
	_, reported := s.look(c.view, name, 0)
	return &apiv1.GetSealingKeyResponse{Proof: proof, NextEpoch: secrets.Next(c.view, name, reported)}, nil
}

// SetSecret implements SealingService. It opens the ciphertext, so that the caller learns of a value
// that would never be delivered, and keeps nothing of it.
func (s *Server) SetSecret(ctx context.Context, req *apiv1.SetSecretRequest) (*apiv1.SetSecretResponse, error) {
	if most := group.MaxSealedBytes + sealed.Overhead; len(req.GetCiphertext()) > most {
		return nil, status.Errorf(codes.InvalidArgument, "ciphertext: %d bytes, at most %d", len(req.GetCiphertext()), most)
	}
	c, err := s.callerFor(ctx, req.GetGroup(), req.GetReason())
	if err != nil {
		return nil, err
	}
	spec, err := c.sealable(ctx, req.GetGroup(), req.GetName())
	if err != nil {
		return nil, err
	}
	key := store.SealKey(req.GetGroup(), req.GetName())
	switch denied, err := s.mayNotWrite(ctx, c.token, []string{key}); {
	case err != nil:
		return nil, wire(err)
	case denied != "":
		return nil, wire(fmt.Errorf("%w: the token may not write %s", store.ErrDenied, key))
	}
	text := store.SealedSecret{Group: req.GetGroup(), Name: req.GetName(), Epoch: req.GetEpoch(), KeyEpoch: req.GetKeyEpoch(), Ciphertext: req.GetCiphertext()}
	if why := secrets.Judge(c.view, spec, text); why != "" {
		return nil, status.Error(codes.FailedPrecondition, why)
	}
	switch _, err := secrets.Open(ctx, s.cfg.Root, text); {
	case errors.Is(err, sealed.ErrNotOpened):
		return nil, status.Error(codes.InvalidArgument, "ciphertext: "+err.Error())
	case err != nil:
		s.cfg.Log.Error("sealing key not available", "error", err)
		return nil, status.Error(codes.Unavailable, "the coordinator cannot derive the sealing key now: try again")
	}
	if _, waits := c.view.Seals[view.SecretName{Group: text.Group, Name: text.Name}]; waits {
		return nil, status.Error(codes.FailedPrecondition, "another value of this secret waits for the leader: try again in a moment")
	}
	if req.GetDryRun() {
		return &apiv1.SetSecretResponse{}, nil
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, wire(err)
	}
	op, err := store.Put(key, store.SealRequest{SealedSecret: text, Reason: req.GetReason(), By: c.by, At: s.cfg.Now().UTC().Truncate(time.Millisecond)}, 0)
	if err != nil {
		return nil, wire(err)
	}
	reason := fmt.Sprintf("epoch %d", text.Epoch)
	if req.GetReason() != "" {
		reason += ": " + req.GetReason()
	}
	if err := c.act(ctx, "seal", "", reason, op); err != nil {
		return nil, wire(err)
	}
	s.cfg.Log.Info("an operator's secret waits for the leader", "group", text.Group, "secret", text.Name, "epoch", text.Epoch, "by", c.by)
	return &apiv1.SetSecretResponse{}, nil
}

// sealable returns the spec in force of a group that declares an operator's secret of this name.
func (c *caller) sealable(ctx context.Context, groupName, name string) (group.Spec, error) {
	spec, one, declared, err := c.declaredSecret(ctx, groupName, name)
	if err != nil {
		return spec, err
	}
	switch {
	case !declared:
		return spec, status.Errorf(codes.NotFound, "group %s has no secret %q: declare it with secret %q { source = \"operator\" } in its file, and apply the file", groupName, name, name)
	case !one.Sealed():
		return spec, status.Errorf(codes.FailedPrecondition,
			"coordinators derive the value of %s/%s: for another value run `cadre secret rotate %s/%s`; for a value of your own declare another secret with source = \"operator\"", groupName, name, groupName, name)
	case c.view.Unreadable(store.SecretKey(groupName, name)):
		return spec, status.Errorf(codes.FailedPrecondition, "the record %s is unreadable, so the next epoch is unknown: repair the record first", store.SecretKey(groupName, name))
	}
	return spec, nil
}
