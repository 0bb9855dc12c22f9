package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/audit"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// maxAuditEntries bounds the entries of one answer.
const maxAuditEntries = 500

const entryGone = "AUDIT_CHAIN_BROKEN: entry %d is absent: ask again, for it may have been removed during the call; if it stays absent, the chain is damaged"

// ListAudit implements AuditService.
func (s *Server) ListAudit(ctx context.Context, req *apiv1.ListAuditRequest) (*apiv1.ListAuditResponse, error) {
	c, head, err := s.auditReader(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListAuditResponse{Last: head.Last.Number, Removed: head.Checkpoint.Number}
	from := max(req.GetAfter(), head.Checkpoint.Number)
	if since := req.GetSince(); since != nil {
		if err := since.CheckValid(); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "since: %v", err)
		}
		before, err := c.entriesBefore(ctx, head, since.AsTime())
		if err != nil {
			return nil, err
		}
		from = max(from, before)
	}
	limit := maxAuditEntries
	if n := req.GetLimit(); n > 0 && n < maxAuditEntries {
		limit = int(n)
	}
	for from < head.Last.Number && len(out.GetEntriesJson()) < limit {
		left := uint64(limit - len(out.GetEntriesJson()))
		some, err := store.ReadAudit(ctx, c.store, from+1, min(from+left, head.Last.Number))
		if err != nil {
			return nil, wire(err)
		}
		if len(some) == 0 {
			return nil, status.Errorf(codes.Aborted, entryGone, from+1)
		}
		for _, e := range some {
			if err := appendJSON(&out.EntriesJson, e); err != nil {
				return nil, err
			}
			from = e.Number
		}
	}
	return out, nil
}

// GetAuditHead implements AuditService.
func (s *Server) GetAuditHead(ctx context.Context, _ *apiv1.GetAuditHeadRequest) (*apiv1.GetAuditHeadResponse, error) {
	_, head, err := s.auditReader(ctx)
	if err != nil {
		return nil, err
	}
	signed := audit.SignedHead{Cluster: s.cfg.Cluster, ClusterID: s.cfg.Root.ClusterID(), Head: head, At: s.cfg.Now().UTC().Truncate(time.Millisecond)}
	signed.Signature = s.cfg.Root.CA().SignStatement(signed.Statement())
	text, err := encode(signed)
	return &apiv1.GetAuditHeadResponse{HeadJson: text}, err
}

// auditReader returns a caller who may read the chain, and the chain's end.
func (s *Server) auditReader(ctx context.Context) (*caller, audit.Head, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, audit.Head{}, err
	}
	// Consul decides about the right by this read, also while there is no entry.
	if _, err := c.store.Get(ctx, store.AuditHeadKey); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, audit.Head{}, wire(err)
	}
	head, err := store.ReadAuditHead(ctx, c.store)
	return c, head, wire(err)
}

// entriesBefore is the number of the last entry before a time. The times of entries never fall.
func (c *caller) entriesBefore(ctx context.Context, head audit.Head, at time.Time) (uint64, error) {
	low, high := head.Checkpoint.Number, head.Last.Number // every entry up to low is before
	for low < high {
		middle := low + (high-low+1)/2
		some, err := store.ReadAudit(ctx, c.store, middle, middle)
		switch {
		case err != nil:
			return 0, wire(err)
		case len(some) == 0:
			return 0, status.Errorf(codes.Aborted, entryGone, middle)
		case some[0].At.Before(at):
			low = middle
		default:
			high = middle - 1
		}
	}
	return low, nil
}
