package clienttest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SetSecrets replaces the answer of ListSecrets.
func (s *Server) SetSecrets(all []*apiv1.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = all
}

// ListSecrets implements ClusterService.
func (s *Server) ListSecrets(ctx context.Context, r *apiv1.ListSecretsRequest) (*apiv1.ListSecretsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListSecrets"); err != nil {
		return nil, err
	}
	out := &apiv1.ListSecretsResponse{}
	for _, one := range s.secrets {
		if r.GetGroup() == "" || r.GetGroup() == one.GetGroup() {
			out.Secrets = append(out.Secrets, one)
		}
	}
	return out, nil
}

// RotateSecret implements ClusterService: the secret is Requested from then on.
func (s *Server) RotateSecret(ctx context.Context, r *apiv1.RotateSecretRequest) (*apiv1.RotateSecretResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RotateSecret"); err != nil {
		return nil, err
	}
	for _, one := range s.secrets {
		if one.GetGroup() == r.GetGroup() && one.GetName() == r.GetName() {
			one.Requested = true
			return &apiv1.RotateSecretResponse{Epoch: one.GetEpoch()}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "group %s has no secret %q", r.GetGroup(), r.GetName())
}
