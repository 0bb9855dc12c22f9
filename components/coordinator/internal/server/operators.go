package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/tokens"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// AddOperator implements OperatorService. The record is written with the caller's own token. The
// same call again succeeds.
func (s *Server) AddOperator(ctx context.Context, req *apiv1.AddOperatorRequest) (*apiv1.AddOperatorResponse, error) {
	c, err := s.decider(ctx, store.OperatorRecordsPrefix, "", "")
	if err != nil {
		return nil, err
	}
	r := store.OperatorRecord{
		Name: req.GetName(), Role: store.Role(req.GetRole()), Groups: slices.Compact(slices.Sorted(slices.Values(req.GetGroups()))), SHA256: req.GetSha256(),
		Expires: req.GetExpires().AsTime(), By: c.by, At: c.now(),
	}
	if req.GetExpires() == nil {
		r.Expires = time.Time{}
	}
	if err := r.Check(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.lifeFits(r.Expires); err != nil {
		return nil, err
	}
	known := c.view.Known()
	for _, g := range r.Groups {
		if !slices.Contains(known, g) {
			return nil, status.Errorf(codes.InvalidArgument, "groups: there is no group %s; `cadre group list` shows the groups", g)
		}
	}
	all, err := c.operators(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other.Name == r.Name && other.fault == nil && other.SHA256 == r.SHA256 && other.Role == r.Role && slices.Equal(other.Groups, r.Groups) {
			return &apiv1.AddOperatorResponse{Operator: other.wire()}, nil
		}
		if other.Name == r.Name {
			return nil, status.Errorf(codes.AlreadyExists, "name: operator %s exists already: choose another name, or use `cadre operator rotate %s` or `cadre operator remove %s`", r.Name, r.Name, r.Name)
		}
	}
	if len(all) > store.MaxOperators { // one of them is of the trust file
		return nil, status.Errorf(codes.ResourceExhausted, "name: there are %d operators already: remove some with `cadre operator remove`", store.MaxOperators)
	}
	if err := s.unused(ctx, r.SHA256, all); err != nil {
		return nil, err
	}
	op, err := store.Put(store.OperatorKey(r.Name), r, 0)
	if err == nil {
		err = c.act(ctx, "add-operator", "", "", op)
	}
	if errors.Is(err, store.ErrConflict) {
		return nil, status.Errorf(codes.AlreadyExists, "name: operator %s was added at the same time: `cadre operator list` shows it", r.Name)
	}
	if err != nil {
		return nil, wire(err)
	}
	s.cfg.Log.Info("operator added", "operator", r.Name, "role", r.Role, "groups", r.Groups, "expires", r.Expires, "by", c.by)
	return &apiv1.AddOperatorResponse{Operator: listed{OperatorRecord: r}.wire()}, nil
}

// lifeFits rejects an end that is too near or too far.
func (s *Server) lifeFits(expires time.Time) error {
	switch life := expires.Sub(s.cfg.Now()); {
	case life < store.MinOperatorLife-time.Minute: // the call took a moment
		return status.Errorf(codes.InvalidArgument, "expires: the token would end in %v; the shortest life is %v", life.Round(time.Second), store.MinOperatorLife)
	case life > store.MaxOperatorLife+time.Minute:
		return status.Errorf(codes.InvalidArgument, "expires: the token would live for %d days; the longest life is %d days", int(life.Hours()/24), int(store.MaxOperatorLife.Hours()/24))
	}
	return nil
}

// unused rejects the digest of a token that an operator has or had.
func (s *Server) unused(ctx context.Context, digest string, all []listed) error {
	if s.isFirst(digest) {
		return status.Errorf(codes.InvalidArgument, "sha256: the token is the one of operator %s; draw another token", store.FirstOperator)
	}
	for _, other := range all {
		if _, ok := other.Named(digest); ok {
			return status.Errorf(codes.InvalidArgument, "sha256: the token is the one of operator %s; draw another token", other.Name)
		}
	}
	_, _, err := store.Read[store.OperatorToken](ctx, s.cfg.Store, store.OperatorTokenKey(digest))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil && len(store.RecordErrors(err)) == 0 {
		return wire(err)
	}
	return status.Error(codes.InvalidArgument, "sha256: the token was used before; draw another token")
}

// listed is an operator with the first use of the token. fault is why the record gives no access.
type listed struct {
	store.OperatorRecord
	index uint64
	made  bool
	used  time.Time
	fault error
}

func (l listed) wire() *apiv1.Operator {
	out := &apiv1.Operator{Name: l.Name, Role: string(l.Role), Groups: l.Groups, By: l.By}
	for _, one := range []struct {
		at  time.Time
		out **timestamppb.Timestamp
	}{{l.Expires, &out.Expires}, {l.NextExpires, &out.NextExpires}, {l.used, &out.Used}, {l.At, &out.At}} {
		if !one.at.IsZero() {
			*one.out = timestamppb.New(one.at)
		}
	}
	if l.fault != nil {
		out.Fault = l.fault.Error()
	}
	return out
}

// operators lists all operators as the caller may read them: the one of the trust file first, then
// by name.
func (c *caller) operators(ctx context.Context) ([]listed, error) {
	entries, _, err := c.store.List(ctx, store.OperatorRecordsPrefix)
	if err != nil {
		return nil, wire(err)
	}
	s := c.server
	made, _, err := store.ReadAll[store.OperatorToken](ctx, s.cfg.Store, store.OperatorsPrefix)
	if err != nil && len(store.RecordErrors(err)) == 0 {
		return nil, wire(err)
	}
	uses := map[string]store.OperatorToken{}
	for _, m := range made {
		uses[m.Value.SHA256] = m.Value
	}
	var out []listed
	if digest := s.cfg.OperatorTokenSHA256; digest != "" {
		first := listed{OperatorRecord: store.OperatorRecord{Name: store.FirstOperator, Role: store.RoleAdmin, SHA256: digest, By: "the coordinators' trust file"}}
		if first.made = uses[digest].Made; first.made {
			first.used = uses[digest].At
			there, err := s.cfg.Tokens.HasFirst(ctx)
			if err != nil {
				return nil, wire(err)
			}
			if !there {
				first.fault = errors.New("the token was removed; another one needs another digest in the trust file")
			}
		}
		out = append(out, first)
	}
	for _, e := range entries {
		one := listed{index: e.Index}
		if one.OperatorRecord, _, one.fault = store.Read[store.OperatorRecord](ctx, c.store, e.Key); one.fault == nil {
			one.fault = one.Check()
		}
		name := strings.TrimPrefix(e.Key, store.OperatorRecordsPrefix)
		if one.fault == nil && one.Name != name {
			one.fault = fmt.Errorf("name: the record names %.80q", one.Name)
		}
		one.Name = name
		one.made = uses[one.SHA256].Made
		if one.made {
			one.used = uses[one.SHA256].At
		}
		out = append(out, one)
	}
	return out, nil
}

// ListOperators implements OperatorService.
func (s *Server) ListOperators(ctx context.Context, _ *apiv1.ListOperatorsRequest) (*apiv1.ListOperatorsResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.operators(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListOperatorsResponse{}
	for _, one := range all {
		out.Operators = append(out.Operators, one.wire())
	}
	return out, nil
}

// operatorNamed returns one operator for a change, after Consul has confirmed the caller's right to
// change it.
func (s *Server) operatorNamed(ctx context.Context, name string) (c *caller, one listed, all []listed, err error) {
	if c, err = s.caller(ctx); err != nil {
		return nil, one, nil, err
	}
	key := store.OperatorKey(name)
	if err := store.CheckKey(key); err != nil {
		return nil, one, nil, status.Errorf(codes.InvalidArgument, "name: %v", err)
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, one, nil, wire(err)
	}
	switch may, err := s.cfg.Tokens.MayWrite(ctx, c.token, store.DefaultPrefix+key); {
	case err != nil:
		return nil, one, nil, wire(err)
	case !may:
		return nil, one, nil, wire(fmt.Errorf("%w: the token may not change operators; the role admin may", store.ErrDenied))
	}
	if all, err = c.operators(ctx); err != nil {
		return nil, one, nil, err
	}
	at := slices.IndexFunc(all, func(l listed) bool { return l.Name == name })
	if at < 0 {
		return nil, one, nil, status.Errorf(codes.NotFound, "name: there is no operator %s; `cadre operator list` shows the operators", name)
	}
	return c, all[at], all, nil
}

// RemoveOperator implements OperatorService. The token is deleted in Consul before and after the
// record: it ends at once, and a coordinator that creates it at this very moment deletes it again.
func (s *Server) RemoveOperator(ctx context.Context, req *apiv1.RemoveOperatorRequest) (*apiv1.RemoveOperatorResponse, error) {
	c, one, all, err := s.operatorNamed(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	if _, own := one.Named(digestOf(c.token)); own {
		return nil, status.Errorf(codes.FailedPrecondition, "name: %s is the caller; another admin must remove it", one.Name)
	}
	if one.Role == store.RoleAdmin && !slices.ContainsFunc(all, func(l listed) bool { return l.Name != one.Name && l.admits(s.cfg.Now()) }) {
		return nil, status.Errorf(codes.FailedPrecondition, "name: %s is the last admin whose token is in use; add another admin and make a call with its token first", one.Name)
	}
	if one.Name == store.FirstOperator {
		err = s.endFirst(ctx, c)
	} else {
		err = s.endOperator(ctx, c, one)
	}
	if err != nil {
		return nil, wire(err)
	}
	s.cfg.Log.Info("operator removed", "operator", one.Name, "role", one.Role, "by", c.by)
	return &apiv1.RemoveOperatorResponse{Operator: one.wire()}, nil
}

// admits reports whether an admin can call with this operator's token.
func (l listed) admits(now time.Time) bool {
	return l.Role == store.RoleAdmin && l.fault == nil && l.made && (l.Expires.IsZero() || l.Expires.After(now))
}

func (s *Server) endOperator(ctx context.Context, c *caller, one listed) error {
	accessors := one.Accessors()
	if one.SHA256 == "" { // the record is unreadable: the leader deletes tokens without a record
		accessors = nil
	}
	if err := s.cfg.Tokens.Revoke(ctx, accessors...); err != nil {
		return err
	}
	if err := c.act(ctx, "remove-operator", "", "", store.Op{Kind: store.OpDeleteCAS, Key: store.OperatorKey(one.Name), Index: one.index}); err != nil {
		return err
	}
	s.callers.Forget(one.SHA256)
	s.callers.Forget(one.Next)
	return s.cfg.Tokens.Revoke(ctx, accessors...)
}

// endFirst removes the token of the trust file permanently: it counts as created, so that no first use creates it again.
func (s *Server) endFirst(ctx context.Context, c *caller) error {
	digest := s.cfg.OperatorTokenSHA256
	key := store.OperatorTokenKey(digest)
	made, index, err := store.Read[store.OperatorToken](ctx, s.cfg.Store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !made.Made {
		made = store.OperatorToken{SHA256: digest, Made: true, By: s.cfg.Slot, At: s.cfg.Now().UTC()}
	}
	op, err := store.Put(key, made, index)
	if err != nil {
		return err
	}
	if err := c.enter(ctx, "remove-operator", "", "", op); err != nil {
		return err
	}
	s.callers.Forget(digest)
	return s.cfg.Tokens.EndFirst(ctx)
}

// RotateOperator implements OperatorService.
func (s *Server) RotateOperator(ctx context.Context, req *apiv1.RotateOperatorRequest) (*apiv1.RotateOperatorResponse, error) {
	c, one, all, err := s.operatorNamed(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	switch {
	case one.Name == store.FirstOperator:
		return nil, status.Errorf(codes.FailedPrecondition, "name: the token of %s changes with the coordinators' trust file; `cadre operator add` makes an admin whose token can be rotated", one.Name)
	case one.fault != nil:
		return nil, status.Errorf(codes.FailedPrecondition, "name: the record of %s is unusable (%v); remove the operator and add it again", one.Name, one.fault)
	}
	next := one.OperatorRecord
	next.Next, next.NextExpires, next.By, next.At = req.GetSha256(), req.GetExpires().AsTime(), c.by, c.now()
	if err := next.Check(); err != nil {
		return nil, status.Error(codes.InvalidArgument, strings.TrimPrefix(err.Error(), "next_"))
	}
	if err := s.lifeFits(next.NextExpires); err != nil {
		return nil, err
	}
	if err := s.unused(ctx, next.Next, slices.DeleteFunc(all, func(l listed) bool { return l.Next == next.Next })); err != nil {
		return nil, err
	}
	op, err := store.Put(store.OperatorKey(one.Name), next, one.index)
	if err == nil {
		err = c.act(ctx, "rotate-operator", "", "", op)
	}
	if err != nil {
		return nil, wire(err)
	}
	// The token of an earlier rotation was never used, because its first use ends the rotation.
	s.cfg.Log.Info("next token of an operator recorded", "operator", one.Name, "expires", next.NextExpires, "by", c.by)
	one.OperatorRecord = next
	return &apiv1.RotateOperatorResponse{Operator: one.wire()}, nil
}

// ShowOperator implements OperatorService.
func (s *Server) ShowOperator(ctx context.Context, _ *apiv1.ShowOperatorRequest) (*apiv1.ShowOperatorResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.operators(ctx)
	if err != nil {
		return nil, err
	}
	digest := digestOf(c.token)
	for _, one := range all {
		if _, own := one.Named(digest); own {
			return &apiv1.ShowOperatorResponse{Operator: one.wire()}, nil
		}
	}
	name, err := s.cfg.Tokens.NameOf(ctx, c.token)
	if errors.Is(err, tokens.ErrDenied) {
		return nil, wire(err)
	}
	return &apiv1.ShowOperatorResponse{Operator: &apiv1.Operator{Name: name}}, wire(err)
}
