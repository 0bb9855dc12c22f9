package clienttest

import (
	"bytes"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/statement"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SealingKey is the private key of every Server.
func SealingKey() (sealed.Key, error) {
	return sealed.NewKey(secret.New(bytes.Repeat([]byte{7}, sealed.KeySize)))
}

// GetSealingKey implements SealingService, with the evidence of ProveItself.
func (s *Server) GetSealingKey(ctx context.Context, r *apiv1.GetSealingKeyRequest) (*apiv1.GetSealingKeyResponse, error) {
	one, err := s.epochOf(ctx, "GetSealingKey", r.GetGroup(), r.GetName())
	if err != nil {
		return nil, err
	}
	key, err := SealingKey()
	if err != nil || s.prove == nil {
		return nil, status.Errorf(codes.Unimplemented, "no evidence: %v", err)
	}
	proof, err := s.prove(ctx, r.GetNonce(), func(own statement.Coordinator) assertion {
		out := statement.SealingKey{Coordinator: own, KeyEpoch: 1, PublicKey: key.Public()}
		if s.ChangeSealingKey != nil {
			s.ChangeSealingKey(&out)
		}
		return out
	})
	if s.ReplaceSealingKey != nil {
		if st, wrong := statement.DecodeSealingKey(proof.GetStatement()); wrong == nil {
			st.PublicKey = s.ReplaceSealingKey
			proof.Statement = st.Encode()
		}
	}
	return &apiv1.GetSealingKeyResponse{Proof: proof, NextEpoch: one + 1}, err
}

// SetSecret implements SealingService: the value is in force at once. Given has it.
func (s *Server) SetSecret(ctx context.Context, r *apiv1.SetSecretRequest) (*apiv1.SetSecretResponse, error) {
	epoch, err := s.epochOf(ctx, "SetSecret", r.GetGroup(), r.GetName())
	if err != nil {
		return nil, err
	}
	key, err := SealingKey()
	if err != nil {
		return nil, err
	}
	value, err := key.Open(sealed.Place{ClusterID: s.clusterID, Group: r.GetGroup(), Name: r.GetName(), Epoch: epoch + 1, KeyEpoch: r.GetKeyEpoch()}, r.GetCiphertext())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if r.GetDryRun() {
		return &apiv1.SetSecretResponse{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.secrets {
		if one.GetGroup() == r.GetGroup() && one.GetName() == r.GetName() {
			one.Epoch, one.NoValue, one.Reason = epoch+1, false, r.GetReason()
		}
	}
	s.given = value.RevealString()
	return &apiv1.SetSecretResponse{}, nil
}

// Given is the last value of SetSecret.
func (s *Server) Given() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// epochOf returns the epoch of an operator's secret.
func (s *Server) epochOf(ctx context.Context, method, groupName, name string) (uint32, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, method); err != nil {
		return 0, err
	}
	for _, one := range s.secrets {
		if one.GetGroup() == groupName && one.GetName() == name && one.GetSource() != "" {
			return one.GetEpoch(), nil
		}
	}
	return 0, status.Errorf(codes.NotFound, "group %s has no secret %q: declare it", groupName, name)
}
