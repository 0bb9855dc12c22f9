package server

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

var composeHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// GetAppCompose implements PolicyService. It shows the judged document, or the document that would
// be judged.
func (s *Server) GetAppCompose(ctx context.Context, req *apiv1.GetAppComposeRequest) (*apiv1.GetAppComposeResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	one, err := findRevision(c.view, req.GetRevision(), req.GetGroup())
	if hash := strings.ToLower(strings.TrimPrefix(req.GetRevision(), "0x")); status.Code(err) == codes.NotFound && composeHash.MatchString(hash) {
		one, err = named{composeHash: hash}, nil
	}
	if err != nil {
		return nil, err
	}
	if one.group != "" {
		if err := c.mayRead(ctx, one.group); err != nil {
			return nil, err
		}
	}
	document, err := s.document(ctx, one.composeHash)
	switch {
	case err == nil && one.group == "":
		// The record of a bare hash names its group. Before this check the caller learns nothing
		// about the hash.
		if err := c.mayRead(ctx, document.Group); err != nil {
			return nil, err
		}
		one.group = document.Group
	case errors.Is(err, store.ErrNotFound) && one.template.Compose != "":
		return s.rendered(one)
	case errors.Is(err, store.ErrNotFound):
		return nil, status.Errorf(codes.NotFound, "no app-compose.json with compose hash %.64s is kept", one.composeHash)
	}
	if err != nil {
		return nil, wire(err)
	}
	text, err := document.Text()
	if err != nil {
		return nil, status.Errorf(codes.DataLoss, "app-compose/%s: %v; the leader writes it again when it allows the hash again", one.composeHash, err)
	}
	return &apiv1.GetAppComposeResponse{
		Revision: one.revision, Group: one.group, ComposeHash: document.ComposeHash, AppCompose: text, JudgedAt: timestamppb.New(document.CreatedAt),
	}, nil
}

func (s *Server) document(ctx context.Context, hash string) (policy.Document, error) {
	if hash == "" {
		return policy.Document{}, store.ErrNotFound
	}
	document, _, err := store.Read[policy.Document](ctx, s.cfg.Store, store.AppComposeKey(hash))
	return document, err
}

// rendered returns the document that a platform would receive for a Revision. It applies when no
// platform was asked, or when one was asked about the same bytes.
func (s *Server) rendered(one named) (*apiv1.GetAppComposeResponse, error) {
	text, err := s.cfg.Measure.Render(one.group, one.template)
	if err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "revision %s cannot be measured: %v", one.revision, err)
	}
	hash := appcompose.Hash(text)
	if one.composeHash != "" && one.composeHash != hash {
		// Showing the rendered text would let an operator read one text and approve another.
		return nil, status.Errorf(codes.DataLoss, "app-compose/%s, the judged document of revision %s, is not kept any more; the leader writes it again when it allows the hash again", one.composeHash, one.revision)
	}
	return &apiv1.GetAppComposeResponse{Revision: one.revision, Group: one.group, ComposeHash: hash, AppCompose: text}, nil
}
