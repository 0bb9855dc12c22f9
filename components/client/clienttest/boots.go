package clienttest

import (
	"context"
	"strings"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// boots are the answers of BootService: the group of each allowed pair of app and compose hash.
type boots struct{ allowed map[string]string }

// AllowBoot has BootAllowed allow a compose hash for the app of a group, and no other.
func (s *Server) AllowBoot(group, app, composeHash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boots.allowed == nil {
		s.boots.allowed = map[string]string{}
	}
	s.boots.allowed[app+" "+composeHash] = group
}

// BootAllowed implements BootService.
func (s *Server) BootAllowed(ctx context.Context, r *apiv1.BootAllowedRequest) (*apiv1.BootAllowedResponse, error) {
	err := s.enter(ctx, "BootAllowed")
	group, ok := s.boots.allowed[strings.ToLower(r.GetAppId()+" "+r.GetComposeHash())]
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return &apiv1.BootAllowedResponse{Code: "REVISION_NOT_ALLOWED", Message: "compose hash " + r.GetComposeHash() + " is not allowed"}, nil
	}
	return &apiv1.BootAllowedResponse{Allowed: true, Group: group, Revision: "r"}, nil
}
