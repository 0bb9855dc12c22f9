package server

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// asleep is a store whose leader knows no token during the first calls.
type asleep struct {
	store.Store
	left *int
}

func (a asleep) Get(ctx context.Context, key string) (store.Entry, error) {
	if *a.left--; *a.left >= 0 {
		return store.Entry{}, fmt.Errorf("%w: %w", store.ErrDenied, store.ErrTokenUnknown)
	}
	return a.Store.Get(ctx, key)
}

// namesAnswer answers NameOf.
type namesAnswer struct {
	Tokens
	err error
}

func (w namesAnswer) NameOf(context.Context, string) (string, error) { return "an operator", w.err }

// TestACallerIsDeniedOnlyForSure: a leader that has not read its log rejects no caller; the call is
// retried for a while.
func TestACallerIsDeniedOnlyForSure(t *testing.T) {
	for name, c := range map[string]struct {
		unknown int // number of calls with this answer
		who     error
		want    codes.Code
	}{
		"a moment":               {1, nil, codes.NotFound},
		"two leaders in a row":   {2, nil, codes.NotFound},
		"a leader that never is": {1 << 30, nil, codes.Unavailable},
		"no leader to ask":       {1, fmt.Errorf("%w: no cluster leader", store.ErrUnavailable), codes.Unavailable},
		"a token that is not":    {1, tokens.ErrDenied, codes.PermissionDenied},
		"nothing out of the way": {0, tokens.ErrDenied, codes.NotFound},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := settled{Store: asleep{storetest.NewMemory(), &c.unknown}, tokens: namesAnswer{err: c.who}, token: "t"}
			_, err := s.Get(t.Context(), store.GroupSpecKey("pg"))
			if got := status.Code(wire(err)); got != c.want {
				t.Errorf("%s: %v: %s, want %s", name, err, got, c.want)
			}
		})
	}
}
