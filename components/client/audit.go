package client

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/audit"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Audit calls each with the kept entries of the audit chain after the number after and not before
// since, oldest first, until each returns an error. A zero since leaves out none.
func (c *Client) Audit(ctx context.Context, after uint64, since time.Time, each func(audit.Entry) error) error {
	doing := "read the audit chain of " + c.ctx.Cluster
	req := &apiv1.ListAuditRequest{After: after}
	if !since.IsZero() {
		req.Since = timestamppb.New(since)
	}
	for {
		r, err := c.auditPage(ctx, req)
		if err != nil {
			return c.wrap(doing, err)
		}
		for _, text := range r.GetEntriesJson() {
			var e audit.Entry
			if err := json.Unmarshal(text, &e); err != nil {
				return fmt.Errorf("%s: decode an entry: %w", doing, err)
			}
			if err := each(e); err != nil {
				return err
			}
			req.After = e.Number
		}
		if len(r.GetEntriesJson()) == 0 || req.GetAfter() >= r.GetLast() {
			return nil
		}
	}
}

func (c *Client) auditPage(ctx context.Context, req *apiv1.ListAuditRequest) (*apiv1.ListAuditResponse, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return apiv1.NewAuditServiceClient(c.conn).ListAudit(ctx, req)
}

// AuditHead returns the end of the audit chain, whose signature is not verified yet.
func (c *Client) AuditHead(ctx context.Context) (audit.SignedHead, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	doing := "read the end of the audit chain of " + c.ctx.Cluster
	r, err := apiv1.NewAuditServiceClient(c.conn).GetAuditHead(ctx, &apiv1.GetAuditHeadRequest{})
	if err != nil {
		return audit.SignedHead{}, c.wrap(doing, err)
	}
	var head audit.SignedHead
	if err := json.Unmarshal(r.GetHeadJson(), &head); err != nil {
		return audit.SignedHead{}, fmt.Errorf("%s: decode it: %w", doing, err)
	}
	return head, nil
}

// CAKey is the public key of the pinned cluster CA, which signs the end of the audit chain.
func (c Context) CAKey() (ed25519.PublicKey, error) {
	block, _ := pem.Decode([]byte(c.CAPEM))
	if block == nil {
		return nil, errors.New("the context has no cluster CA: prove the coordinators first: `cadre cluster connect`")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("ca_pem of the context: %w", err)
	}
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("ca_pem of the context: its key is no Ed25519 key")
	}
	return key, nil
}
