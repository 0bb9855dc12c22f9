package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"cadre.dev/coordinator/internal/tokens"
)

// limitTime ends a call after callTime, because the caller may have set no deadline.
func limitTime(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return handle(ctx, req)
}

// checkOperator decides whether a token is an operator's: Consul has it, or its first call creates
// it.
func (s *Server) checkOperator(ctx context.Context, token string) error {
	err := s.cfg.Tokens.CheckOperator(ctx, token)
	if !errors.Is(err, tokens.ErrDenied) {
		return err
	}
	may, unread := s.mayBeFirst(ctx, token)
	switch {
	case unread != nil:
		return unread
	case may:
		return nil
	}
	return err
}
