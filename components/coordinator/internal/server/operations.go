package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/operation"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ListOperations implements OperationService.
func (s *Server) ListOperations(ctx context.Context, req *apiv1.ListOperationsRequest) (*apiv1.ListOperationsResponse, error) {
	all, err := s.readableOperations(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListOperationsResponse{}
	for _, op := range all.operations {
		if req.GetGroup() != "" && op.Group != req.GetGroup() || op.Phase.Ended() && !req.GetAll() {
			continue
		}
		if err := appendJSON(&out.OperationsJson, op); err != nil {
			return nil, err
		}
	}
	for _, q := range all.waiting(req.GetGroup()) {
		if err := appendJSON(&out.RequestsJson, q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CancelRequest implements OperationService. An Operation that a leader has begun goes on: its
// first transaction deletes the request.
func (s *Server) CancelRequest(ctx context.Context, req *apiv1.CancelRequestRequest) (*apiv1.CancelRequestResponse, error) {
	all, err := s.readableOperations(ctx)
	if err != nil {
		return nil, err
	}
	typed := req.GetRequestId()
	q, ok, err := all.request(typed)
	if err != nil {
		return nil, err
	}
	if !ok {
		if op, err := all.find(typed); err == nil && strings.HasPrefix(op.Request.ID, typed) {
			return nil, status.Errorf(codes.FailedPrecondition, "request %s is carried out already: `cadre operation show %s`", op.Request.ID, op.ID)
		}
		return &apiv1.CancelRequestResponse{}, nil
	}
	id := q.ID
	c, err := s.decider(ctx, store.QueuePrefix, "request_id", id)
	if err != nil {
		return nil, err
	}
	changed, err := c.remove(ctx, "cancel", "", store.QueueKey(id))
	if changed && err == nil {
		s.cfg.Log.Info("request taken back", "request", id, "kind", q.Kind, "slot", q.Slot, "by", c.by)
	}
	return &apiv1.CancelRequestResponse{Changed: changed}, err
}

// waiting lists the untouched requests about a group, "" for all, oldest first.
func (k known) waiting(name string) (out []store.QueueRequest) {
	for _, q := range k.view.Queue {
		if k.mayKnow(q.Value) && (name == "" || k.groupOf(q.Value) == name) {
			out = append(out, q.Value)
		}
	}
	slices.SortFunc(out, func(a, b store.QueueRequest) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

// GetOperation implements OperationService.
func (s *Server) GetOperation(ctx context.Context, req *apiv1.GetOperationRequest) (*apiv1.GetOperationResponse, error) {
	all, err := s.readableOperations(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetOperationResponse{}
	op, err := all.find(req.GetOperation())
	// A prefix can match a request too, and that request may belong to another Operation.
	if q, ok, asked := all.request(req.GetOperation()); asked == nil && ok && (err != nil || op.Request.ID == q.ID) {
		text, failed := encode(q)
		if out.RequestJson = text; failed != nil || err != nil {
			return out, failed // it waits
		}
	}
	if err != nil {
		return nil, err
	}
	out.OperationJson, err = encode(op)
	return out, err
}

// ResolveOperation implements OperationService.
func (s *Server) ResolveOperation(ctx context.Context, req *apiv1.ResolveOperationRequest) (*apiv1.ResolveOperationResponse, error) {
	as := store.Resolution(req.GetAs())
	if as != store.ResolvedDone && as != store.ResolvedFailed {
		return nil, status.Errorf(codes.InvalidArgument, "as: %.80q is neither done nor failed", req.GetAs())
	}
	all, err := s.readableOperations(ctx)
	if err != nil {
		return nil, err
	}
	op, err := all.find(req.GetOperation())
	if err != nil {
		return nil, err
	}
	q := store.QueueRequest{ID: req.GetRequestId(), Kind: store.RequestResolve, Group: op.Group, Operation: op.ID, As: as, Reason: req.GetReason()}
	out := &apiv1.ResolveOperationResponse{RequestId: q.ID}
	if out.OperationJson, err = encode(op); err != nil {
		return nil, err
	}
	out.Warnings = resolveWarnings(op, as)
	if known, ok := all.requested(q.ID); q.ID != "" && ok {
		return out, sameRequest(known, q)
	}
	if err := undecided(op); err != nil || req.GetDryRun() {
		return out, err
	}
	c, err := s.decider(ctx, store.QueuePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	out.RequestId, err = c.enqueue(ctx, q)
	return out, err
}

// undecided rejects a resolution unless the Operation has a platform call with an unknown outcome.
func undecided(op operation.Operation) error {
	switch {
	case op.Phase.Ended():
		return status.Errorf(codes.FailedPrecondition, "operation %s has ended: %s %s", op.ID, op.Phase, op.Reason)
	case op.Phase != operation.Acting:
		return status.Errorf(codes.FailedPrecondition, "operation %s has no undecided platform call: it is %s: %s", op.ID, op.Phase, op.Reason)
	}
	return nil
}

// resolveWarnings describes the consequence of a wrong resolution.
func resolveWarnings(op operation.Operation, as store.Resolution) []string {
	if as == store.ResolvedDone {
		return []string{fmt.Sprintf("the leader assumes that %s took effect: if it did not, the slot waits in vain for a boot until its deadline", op.Kind)}
	}
	return []string{fmt.Sprintf("the leader assumes that %s had no effect and will have none: if it takes effect later, it restarts the slot or creates a second CVM; check the CVM on the platform first", op.Kind)}
}

// known has the Operations that a caller may read.
type known struct {
	*caller
	readable map[string]bool
	// operations, newest first.
	operations []operation.Operation
}

func (s *Server) readableOperations(ctx context.Context) (known, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return known{}, err
	}
	readable, err := c.readable(ctx)
	if err != nil {
		return known{}, err
	}
	out := known{caller: c, readable: readable}
	for _, o := range c.view.Operations {
		if readable[o.Value.Group] {
			out.operations = append(out.operations, o.Value)
		}
	}
	slices.SortFunc(out.operations, func(a, b operation.Operation) int {
		return cmp.Or(b.Times.Created.Compare(a.Times.Created), cmp.Compare(b.ID, a.ID))
	})
	return out, nil
}

func (k known) mayKnow(q store.QueueRequest) bool { return k.readable[k.groupOf(q)] }

// groupOf returns the group that a request concerns; "": none.
func (k known) groupOf(q store.QueueRequest) string {
	return cmp.Or(q.Group, k.view.Slots[q.Slot].Value.Group)
}

// specific reports whether a prefix of a request's id is specific: it is longer than the kind at its
// front.
func specific(id string) bool {
	_, rest, _ := strings.Cut(id, "-")
	return len(rest) >= minPrefix
}

// request returns the waiting request with this id, or the only one whose id begins with it.
func (k known) request(id string) (q store.QueueRequest, ok bool, err error) {
	if one, there := k.view.Queue[id]; there && k.mayKnow(one.Value) {
		return one.Value, true, nil
	}
	if !specific(id) {
		return q, false, nil
	}
	n := 0
	for _, one := range k.waiting("") {
		if strings.HasPrefix(one.ID, id) {
			q, n = one, n+1
		}
	}
	if n > 1 {
		return q, false, status.Errorf(codes.InvalidArgument, "request_id: %.140q matches %d requests: type more of it", id, n)
	}
	return q, n == 1, nil
}

// find returns the Operation with this id, or the Operation that carries out the request with this
// id. A prefix works if only one Operation matches.
func (k known) find(id string) (operation.Operation, error) {
	var found []operation.Operation
	for _, op := range k.operations {
		if op.ID == id || op.Request.ID == id && id != "" {
			return op, nil
		}
		if len(id) >= minPrefix && (strings.HasPrefix(op.ID, id) || specific(id) && strings.HasPrefix(op.Request.ID, id)) {
			found = append(found, op)
		}
	}
	switch len(found) {
	case 0:
		return operation.Operation{}, status.Errorf(codes.NotFound, "no such operation: %.140s", id)
	case 1:
		return found[0], nil
	}
	return operation.Operation{}, status.Errorf(codes.InvalidArgument, "operation: %.140q matches %d operations: type more of it", id, len(found))
}
