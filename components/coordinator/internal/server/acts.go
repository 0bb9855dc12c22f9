package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/audit"
	"cadre.dev/store"
)

// act commits an act of the caller, who may write each of its keys, together with its entries in
// the audit chain. verb is the act in one word; request is the id of the API call, if it has one.
//
// No operator's token may write the chain. So the coordinator commits with its own token, after
// Consul has confirmed the caller's right to write each key.
func (c *caller) act(ctx context.Context, verb, request, reason string, ops ...store.Op) error {
	denied, err := c.server.mayNotWrite(ctx, c.token, keysOf(ops))
	if err != nil {
		return err
	}
	if denied != "" {
		return fmt.Errorf("%w: the token may not write %s", store.ErrDenied, denied)
	}
	return c.enter(ctx, verb, request, reason, ops...)
}

// enter is act for a call whose right the handler has confirmed in another way. Each change of a
// spec or a record below control/ has an entry. An act without such a change has one entry, about
// its first Op, which may be a check.
func (c *caller) enter(ctx context.Context, verb, request, reason string, ops ...store.Op) error {
	if c.by == "" {
		by, err := c.server.cfg.Tokens.NameOf(ctx, c.token)
		if err != nil {
			return err
		}
		c.by = by
	}
	note := c.note(verb, request, reason)
	ops = store.NoteAll(note, ops...)
	if noted := func(o store.Op) bool { return o.Note != nil }; len(ops) > 0 && !slices.ContainsFunc(ops, noted) {
		ops[0] = store.Noted(ops[0], note)
	}
	return tokens.CaughtUp(ctx, func() error {
		err := c.server.cfg.Store.Commit(ctx, ops...)
		if errors.Is(err, store.ErrDenied) {
			return tokens.ErrNotCaughtUp // the token is the coordinator's own
		}
		return err
	})
}

// note is the entry of an act of the caller, whose name is known.
func (c *caller) note(verb, request, reason string) audit.Entry {
	return audit.Entry{At: c.server.cfg.Now(), Who: audit.Operator, By: c.by, Request: request, Verb: verb, Reason: reason}
}

func keysOf(ops []store.Op) []string {
	keys := make([]string, len(ops))
	for n, op := range ops {
		keys[n] = op.Key
	}
	return keys
}
