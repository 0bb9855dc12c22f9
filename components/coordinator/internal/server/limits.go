package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"cadre.dev/coordinator/internal/tokens"
)

// limitTime ends a call after callTime: a caller's own deadline may be none.
func limitTime(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return handle(ctx, req)
}

// checkOperator decides whose token counts among operators: one that Consul has, or the
// first one, which is made when its first call is served.
func (s *Server) checkOperator(ctx context.Context, token string) error {
	err := s.cfg.Tokens.CheckOperator(ctx, token)
	if errors.Is(err, tokens.ErrDenied) && s.mayBeFirst(token) {
		return nil
	}
	return err
}
