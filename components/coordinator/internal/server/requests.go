package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// enqueue writes an operator's request, as an act of the caller, and returns its id. The caller
// chooses the id: the same id with the same content is the same request, whether queued or carried
// out. With other content it is rejected (I17). Without an id each call is a new request.
func (c *caller) enqueue(ctx context.Context, q store.QueueRequest) (id string, err error) {
	if q.ID == "" {
		q.ID = string(q.Kind) + "-" + uuid.NewString()
	}
	q.By, q.At = c.by, c.server.cfg.Now().UTC().Truncate(time.Millisecond)
	if err := q.Check(); err != nil {
		text := err.Error()
		if strings.HasPrefix(text, "id: ") {
			text = "request_" + text
		}
		return "", status.Error(codes.InvalidArgument, text)
	}
	if known, ok := c.requested(q.ID); ok {
		return q.ID, sameRequest(known, q)
	}
	op, err := store.Put(store.QueueKey(q.ID), q, 0)
	if err != nil {
		return "", wire(err)
	}
	err = c.act(ctx, string(q.Kind), q.ID, q.Reason, op)
	if scoped := store.ScopedID(q.Group, q.ID); errors.Is(err, store.ErrDenied) && q.Group != "" && !strings.Contains(q.ID, ".") {
		// An operator of single groups may write the ids that begin with one of them.
		q.ID = scoped
		return c.enqueue(ctx, q)
	}
	if !errors.Is(err, store.ErrConflict) {
		if err == nil {
			c.server.cfg.Log.Info("request queued", "request", q.ID, "kind", q.Kind, "group", q.Group, "slot", q.Slot, "operation", q.Operation, "by", q.By, "reason", q.Reason)
		}
		return q.ID, wire(err)
	}
	// The same call was made at the same time.
	known, _, err := store.Read[store.QueueRequest](ctx, c.store, store.QueueKey(q.ID))
	if err != nil {
		return "", wire(err)
	}
	return q.ID, sameRequest(known, q)
}

// requested returns the request with this id: a waiting one, or one of an Operation.
func (c *caller) requested(id string) (store.QueueRequest, bool) {
	if q, ok := c.view.Queue[id]; ok {
		return q.Value, true
	}
	for _, o := range c.view.Operations {
		if op := o.Value; op.Request.ID == id && id != "" {
			q := store.QueueRequest{ID: id, Kind: askedAs[op.Kind], Group: op.Group, Slot: op.Slot, Service: op.Way.Service, Reason: op.Request.Note, By: op.Request.By}
			return q, true
		}
	}
	return store.QueueRequest{}, false
}

// askedAs maps the Kind of an Operation to the requests that it carries out.
var askedAs = map[operation.Kind]store.RequestKind{
	operation.Restart: store.RequestRestart, operation.Update: store.RequestUpdate, operation.Replace: store.RequestReplace,
}

// sameRequest rejects an id that was used for another request.
func sameRequest(known, q store.QueueRequest) error {
	if known.Kind == q.Kind && known.Slot == q.Slot && known.Service == q.Service && known.Operation == q.Operation && known.As == q.As &&
		(known.Group == q.Group || q.Slot != "") && known.Reason == q.Reason {
		return nil
	}
	what := strings.TrimSpace(strings.Join([]string{string(known.Kind), known.Slot + known.Operation}, " of "))
	return status.Errorf(codes.InvalidArgument, "request_id: %s belongs to another request already (%s, reason %q): use a new id", q.ID, what, known.Reason)
}

// needReason rejects a request without a reason. These requests remove something, and the reason
// explains the removal later.
func needReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	case len(reason) > maxReason:
		return status.Errorf(codes.InvalidArgument, "reason: at most %d bytes", maxReason)
	}
	return nil
}
