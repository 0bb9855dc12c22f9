package clienttest

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/audit"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// auditPage bounds the entries of an answer.
const auditPage = 3

// SetAudit replaces the audit chain: the entries in order, and the end that continues checkpoint.
// The Server signs the end at the time at.
func (s *Server) SetAudit(head audit.Head, entries []audit.Entry, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.auditHead, s.auditEntries, s.auditAt = head, entries, at
}

// ListAudit implements AuditService.
func (s *Server) ListAudit(ctx context.Context, r *apiv1.ListAuditRequest) (*apiv1.ListAuditResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListAudit"); err != nil {
		return nil, err
	}
	out := &apiv1.ListAuditResponse{Last: s.auditHead.Last.Number, Removed: s.auditHead.Checkpoint.Number}
	for _, e := range s.auditEntries {
		if e.Number <= r.GetAfter() || r.GetSince() != nil && e.At.Before(r.GetSince().AsTime()) || len(out.GetEntriesJson()) == auditPage {
			continue
		}
		text, err := json.Marshal(e)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out.EntriesJson = append(out.EntriesJson, text)
	}
	return out, nil
}

// GetAuditHead implements AuditService.
func (s *Server) GetAuditHead(ctx context.Context, _ *apiv1.GetAuditHeadRequest) (*apiv1.GetAuditHeadResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetAuditHead"); err != nil {
		return nil, err
	}
	signed := audit.SignedHead{Cluster: "demo", ClusterID: s.clusterID, Head: s.auditHead, At: s.auditAt}
	signed.Signature = ed25519.Sign(s.caKey, signed.Statement())
	text, err := json.Marshal(signed)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &apiv1.GetAuditHeadResponse{HeadJson: text}, nil
}
