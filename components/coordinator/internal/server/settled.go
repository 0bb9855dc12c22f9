package server

import (
	"context"
	"errors"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/store"
)

// settled is a caller's store. It rejects an unknown token only when Consul certainly has no such
// token. A leader of Consul that is elected right after its start does not know all tokens for a
// moment (store.ErrTokenUnknown). Without the retry, a client that follows a rollout past the death
// of a coordinator would be denied.
//
// Only the methods that callers use are wrapped.
type settled struct {
	store.Store
	tokens Tokens
	token  string
}

// Get implements store.Store.
func (s settled) Get(ctx context.Context, key string) (out store.Entry, err error) {
	err = s.ask(ctx, func() error { out, err = s.Store.Get(ctx, key); return err })
	return out, err
}

// List implements store.Store.
func (s settled) List(ctx context.Context, prefix string) (out []store.Entry, index uint64, err error) {
	err = s.ask(ctx, func() error { out, index, err = s.Store.List(ctx, prefix); return err })
	return out, index, err
}

// Holder implements store.Store.
func (s settled) Holder(ctx context.Context) (holder string, term uint64, err error) {
	err = s.ask(ctx, func() error { holder, term, err = s.Store.Holder(ctx); return err })
	return holder, term, err
}

// ask retries while Consul may still learn the token: the earlier attempts had no effect.
func (s settled) ask(ctx context.Context, do func() error) error {
	return tokens.CaughtUp(ctx, func() error {
		err := do()
		if !errors.Is(err, store.ErrTokenUnknown) {
			return err
		}
		switch _, who := s.tokens.NameOf(ctx, s.token); {
		case errors.Is(who, tokens.ErrDenied):
			return err
		case who != nil:
			return who
		}
		return tokens.ErrNotCaughtUp
	})
}
