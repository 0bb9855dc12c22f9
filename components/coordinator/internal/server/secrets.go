package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ListSecrets implements ClusterService. No answer has a secret's value.
func (s *Server) ListSecrets(ctx context.Context, req *apiv1.ListSecretsRequest) (*apiv1.ListSecretsResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{req.GetGroup()}
	gossip := req.GetGroup() == "" || req.GetGroup() == store.ClusterSecrets
	switch {
	case req.GetGroup() == "":
		readable, err := c.readable(ctx)
		if err != nil {
			return nil, err
		}
		names = names[:0]
		for _, name := range c.view.Groups() {
			if readable[name] {
				names = append(names, name)
			}
		}
	case gossip:
		names = nil
	default:
		if c, err = s.callerFor(ctx, req.GetGroup(), ""); err != nil {
			return nil, err
		}
	}
	out := &apiv1.ListSecretsResponse{}
	if gossip {
		if _, err := c.store.Get(ctx, store.SecretKey(store.ClusterSecrets, store.GossipSecret)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, wire(err)
		}
		if c.view == nil {
			if err := c.load(ctx); err != nil {
				return nil, err
			}
		}
		out.Secrets = append(out.Secrets, s.describe(c.view, view.GossipKey, secrets.GossipEvery))
	}
	for _, name := range names {
		spec, _, ok := c.view.InForce(name)
		if !ok {
			continue
		}
		for _, one := range spec.AllSecrets() {
			every, _ := one.Every()
			described := s.describe(c.view, view.SecretName{Group: name, Name: one.Name}, every)
			described.Owner, described.Mode, described.Source = one.Owner, one.Mode, string(one.Source)
			described.NoValue = slices.Contains(c.view.NoValue(spec), one.Name)
			out.Secrets = append(out.Secrets, described)
		}
	}
	return out, nil
}

// describe returns the public properties of one secret.
func (s *Server) describe(v *view.View, name view.SecretName, every time.Duration) *apiv1.Secret {
	out, _ := s.look(v, name, every)
	return out
}

// look is describe with the latest epoch that members report above the record; 0: none.
func (s *Server) look(v *view.View, name view.SecretName, every time.Duration) (out *apiv1.Secret, latest uint32) {
	out = &apiv1.Secret{Group: name.Group, Name: name.Name}
	_, out.Requested = v.Rotates[name]
	if _, waits := v.Seals[name]; waits {
		out.Requested = true
	}
	rec, ok := v.Secrets[name]
	if !ok {
		return out, 0
	}
	r := rec.Value
	out.Epoch, out.Reason, out.By, out.Step = r.Epoch, r.Reason, r.By, string(r.Step)
	out.RotatedAt = timestamppb.New(r.RotatedAt)
	if every > 0 {
		out.NextRotation = timestamppb.New(r.RotatedAt.Add(every))
	}
	for slot, admission := range v.Admissions {
		if admission.Value.Group != name.Group {
			continue // the value of a cluster secret is never delivered
		}
		got, ok := s.cfg.Reports.Of(slot)
		if !ok || got.BootID != admission.Value.BootID || s.cfg.Now().Sub(got.At) > reports.LiveWithin {
			continue
		}
		out.Connected++
		has := got.Report.GetSecretEpochs()[name.Name]
		if has >= r.Epoch {
			out.Delivered++
		}
		if has > r.Epoch {
			out.Ahead++
			latest = max(latest, has)
		}
	}
	return out, latest
}

// RotateSecret implements ClusterService. A repeated call before the leader takes the first request
// is the same request.
func (s *Server) RotateSecret(ctx context.Context, req *apiv1.RotateSecretRequest) (*apiv1.RotateSecretResponse, error) {
	c, err := s.rotating(ctx, req)
	if err != nil {
		return nil, err
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, wire(err)
	}
	name := view.SecretName{Group: req.GetGroup(), Name: req.GetName()}
	out := &apiv1.RotateSecretResponse{Epoch: c.view.Secrets[name].Value.Epoch}
	op, err := store.Put(store.RotateKey(name.Group, name.Name), store.RotateRequest{
		Group: name.Group, Name: name.Name, Reason: cmp.Or(req.GetReason(), "asked for"), By: c.by, At: s.cfg.Now().UTC().Truncate(time.Millisecond),
	}, 0)
	if err != nil {
		return nil, wire(err)
	}
	if err := c.act(ctx, "rotate", "", req.GetReason(), op); err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, wire(err)
	}
	return out, nil
}

// rotating authenticates a request and checks that the secret exists.
func (s *Server) rotating(ctx context.Context, req *apiv1.RotateSecretRequest) (*caller, error) {
	if req.GetGroup() == store.ClusterSecrets {
		c, err := s.caller(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(req.GetReason()) > maxReason:
			return nil, status.Errorf(codes.InvalidArgument, "reason: at most %d bytes", maxReason)
		case req.GetName() != store.GossipSecret:
			return nil, status.Errorf(codes.NotFound, "the cluster has no key %q that can be rotated: %s is the only one", req.GetName(), store.GossipSecret)
		}
		return c, c.load(ctx)
	}
	c, err := s.callerFor(ctx, req.GetGroup(), req.GetReason())
	if err != nil {
		return nil, err
	}
	_, one, declared, err := c.declaredSecret(ctx, req.GetGroup(), req.GetName())
	switch {
	case err != nil:
		return nil, err
	case one.Sealed():
		return nil, status.Errorf(codes.FailedPrecondition, "coordinators make no value of %s/%s, which has source = \"operator\": give another value with `cadre secret set %s/%s --from-file FILE`",
			req.GetGroup(), req.GetName(), req.GetGroup(), req.GetName())
	case !declared:
		return nil, status.Errorf(codes.NotFound, "group %s has no secret %q: declare it with secret %q { } in its file", req.GetGroup(), req.GetName(), req.GetName())
	}
	return c, nil
}

// declaredSecret returns the spec in force of a group, and its secret of this name. A stored spec that
// declares the secret comes into force with the leader's next pass: the caller waits for that, for
// some seconds.
func (c *caller) declaredSecret(ctx context.Context, groupName, name string) (spec group.Spec, one group.Secret, declared bool, err error) {
	for range 50 {
		spec, _, _ = c.view.InForce(groupName)
		one, declared = spec.Secret(name)
		if declared || !c.declares(groupName, name) {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return spec, one, false, status.FromContextError(ctx.Err()).Err()
		}
		if err := c.load(ctx); err != nil {
			return spec, one, false, err
		}
	}
	return spec, one, declared, nil
}

// declares: the stored spec of a group can be read and declares the secret.
func (c *caller) declares(groupName, name string) bool {
	stored := c.view.Specs[groupName]
	_, declared := stored.Value.Secret(name)
	return stored.Err == nil && declared
}
