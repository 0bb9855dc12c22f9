package api

import (
	"net/http"
	"slices"

	"cadre.dev/local/internal/cloud"
)

// workspaceID names the only workspace here.
const workspaceID = "local"

// me has the shape of 2026-01-21 and later, with the flat fields of earlier versions in addition.
func (s *Server) me(*http.Request) (int, any, error) {
	email := "local@" + s.cfg.Domain
	return http.StatusOK, map[string]any{
		"user": map[string]any{
			"username": "local", "email": email, "role": "admin", "avatar": "", "email_verified": true,
			"totp_enabled": false, "has_backup_codes": false, "flag_has_password": false,
		},
		"workspace": map[string]any{"id": workspaceID, "name": "local", "slug": workspaceID, "tier": "local", "role": "owner", "avatar": nil},
		"credits":   map[string]any{"balance": "0", "granted_balance": "0", "is_post_paid": false, "outstanding_amount": nil},
		"username":  "local", "email": email, "role": "admin", "team_name": "local",
	}, nil
}

func workspaceView() map[string]any {
	return map[string]any{
		"id": workspaceID, "name": "local", "slug": workspaceID, "avatar_url": nil, "description": nil, "tier": "local", "role": "owner",
		"is_default": true, "created_at": "1970-01-01T00:00:00Z", "billing_status": "active", "suspended_at": nil,
	}
}

// workspaceRef is how other objects name it.
func workspaceRef() map[string]any {
	return map[string]any{"object_type": "workspace", "id": workspaceID, "name": "local", "slug": workspaceID, "avatar_url": nil}
}

func userRef() map[string]any {
	return map[string]any{"object_type": "user", "id": "local", "username": "local", "avatar_url": nil}
}

func (s *Server) workspaces(*http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{
		"data": []any{workspaceView()}, "pagination": map[string]any{"has_more": false, "next_cursor": nil, "total": 1},
	}, nil
}

func (s *Server) workspace(r *http.Request) (int, any, error) {
	if r.PathValue("slug") != workspaceID {
		return 0, nil, &cloud.Error{Kind: cloud.NotFound, Message: "Workspace not found"}
	}
	return http.StatusOK, workspaceView(), nil
}

// filterOptions are the values that the CVMs of the workspace have, each once.
func (s *Server) filterOptions(*http.Request) (int, any, error) {
	var images, types, nodes, statuses []string
	for _, v := range s.cfg.Cloud.List("") {
		images, types = append(images, v.OSImage), append(types, v.InstanceType)
		nodes, statuses = append(nodes, nodeName(v.NodeID)), append(statuses, string(v.Status))
	}
	regions, kms := []string{}, []string{}
	if len(images) > 0 {
		regions, kms = append(regions, "local"), append(kms, "phala")
	}
	return http.StatusOK, map[string]any{
		"image_versions": distinct(images), "instance_types": distinct(types), "nodes": distinct(nodes), "statuses": distinct(statuses),
		"regions": regions, "kms_slugs": kms, "kms_types": kms,
	}, nil
}

// distinct is never null in JSON.
func distinct(list []string) []string {
	out := append([]string{}, list...)
	slices.Sort(out)
	return slices.Compact(out)
}
