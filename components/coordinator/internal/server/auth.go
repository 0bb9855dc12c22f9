package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/callers"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// tokenHeader carries the caller's Consul ACL token.
const tokenHeader = "x-consul-token"

// caller is an operator with its token. Consul decides the token's rights.
type caller struct {
	server *Server
	token  string
	store  store.Store
	// view has the records, read after the caller's right to read was confirmed: those of one
	// group, or of all (load); nil before.
	view *view.View
	// by names the caller for the record; decider sets it.
	by string
}

// caller takes the token of a call. Each later read and write checks the token's rights.
func (s *Server) caller(ctx context.Context) (*caller, error) {
	values := metadata.ValueFromIncomingContext(ctx, tokenHeader)
	token, ok := callers.TokenOf(values)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "a Consul ACL token is needed in the metadata "+tokenHeader)
	}
	v, err := s.firstView(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.firstUse(ctx, token, v); err != nil {
		return nil, err
	}
	own, err := s.cfg.StoreFor(token)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &caller{server: s, token: token, store: settled{Store: own, tokens: s.cfg.Tokens, token: token}}, nil
}

// firstView returns the latest View. A coordinator accepts calls before its first read of the
// records, and a caller cannot choose another coordinator behind the gateway. So the call waits for
// the first View, until shortly before its own deadline, so that the reason can still arrive.
func (s *Server) firstView(ctx context.Context) (*view.View, error) {
	wait := recordsTime
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)-answerTime)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		v, changed := s.cfg.Views.Latest()
		if v != nil {
			return v, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, status.Errorf(codes.Unavailable, "%s: %s cannot read the records yet", policy.CodeGateUnreadable, s.cfg.Slot)
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// mayRead asks Consul whether the caller may read a group, by reading its spec. Then it reads the
// group's records, so that a caller sees its own last write. For a missing group the same right is
// needed. The View has no records of other groups, so the cost of the call is independent of them;
// a call that needs all groups has run load before.
func (c *caller) mayRead(ctx context.Context, name string) error {
	if err := c.mayAsk(ctx, name); err != nil || c.view != nil {
		return err
	}
	latest, _ := c.server.cfg.Views.Latest()
	v, err := view.ReadGroup(ctx, c.server.cfg.Store, name, latest, nil)
	if err != nil {
		return wire(err)
	}
	c.view = v.CountLike(latest)
	return nil
}

// mayAsk asks Consul whether the caller may read a group, by reading its spec.
func (c *caller) mayAsk(ctx context.Context, name string) error {
	if _, err := c.store.Get(ctx, store.GroupSpecKey(name)); err != nil && !errors.Is(err, store.ErrNotFound) {
		return wire(err)
	}
	return nil
}

// load reads the records of all groups. The caller has a right to them.
func (c *caller) load(ctx context.Context) error {
	v, err := view.Read(ctx, c.server.cfg.Store)
	if err != nil {
		return wire(err)
	}
	latest, _ := c.server.cfg.Views.Latest()
	c.view = v.CountLike(latest)
	return nil
}

// mayReadSlot is mayRead for the group of a Slot.
func (c *caller) mayReadSlot(ctx context.Context, slot string) (group.SlotRecord, error) {
	name, _, err := group.ParseSlot(slot)
	if err != nil {
		return group.SlotRecord{}, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := c.mayRead(ctx, name); err != nil {
		return group.SlotRecord{}, err
	}
	record, ok := c.view.Slots[slot]
	if !ok {
		return group.SlotRecord{}, status.Error(codes.NotFound, "no such slot: "+slot)
	}
	return record.Value, nil
}

// mayChangeSlot is mayReadSlot for requests about one member. It rejects a member that the spec in
// force does not want: such a member is only removed. A request would wait as long as the member
// stays, and would be carried out unexpectedly when a later spec wants the Slot again.
func (c *caller) mayChangeSlot(ctx context.Context, field, slot string) (group.SlotRecord, error) {
	record, err := c.mayReadSlot(ctx, slot)
	if err != nil {
		return record, err
	}
	if spec, _, ok := c.view.InForce(record.Group); ok && !record.Extra && !spec.HasOrdinal(record.Ordinal) {
		return record, status.Errorf(codes.FailedPrecondition, "%s: %s is to be removed, since the spec does not want it (replicas, without), and it takes no other request: apply a spec that wants it first; `cadre rollout plan %s` shows the holds of its removal",
			field, slot, record.Group)
	}
	return record, nil
}

// mayReadDecided is mayReadSlot with the decisions about the Slot. It also finds a removed Slot
// while its decisions are kept.
func (c *caller) mayReadDecided(ctx context.Context, slot string) (record group.SlotRecord, decided policy.Decisions, gone bool, err error) {
	record, err = c.mayReadSlot(ctx, slot)
	if c.view == nil || err != nil && status.Code(err) != codes.NotFound {
		return record, decided, false, err
	}
	decided, unread := view.ReadDecisions(ctx, c.server.cfg.Store, slot)
	switch {
	case unread != nil:
		return record, decided, false, wire(unread)
	case err == nil || decided.Slot != slot:
		return record, decided, false, err
	}
	name, _, err := group.ParseSlot(slot)
	return group.SlotRecord{Group: name, Slot: slot}, decided, true, wire(err)
}

// wire gives an error its status code.
func wire(err error) error {
	if err == nil {
		return nil
	}
	if _, is := status.FromError(err); is {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, store.ErrDenied), errors.Is(err, tokens.ErrDenied):
		code = codes.PermissionDenied
	case errors.Is(err, store.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, store.ErrConflict):
		code = codes.Aborted
	case errors.Is(err, store.ErrBadKey), errors.Is(err, store.ErrTooLarge):
		code = codes.InvalidArgument
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable), errors.Is(err, tokens.ErrNotCaughtUp), errors.Is(err, context.DeadlineExceeded):
		code = codes.Unavailable
	}
	return status.Error(code, err.Error())
}
