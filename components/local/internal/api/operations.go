package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"cadre.dev/local/internal/cloud"
)

// taskKinds are the platform's words for operations: compose_update, power_on and resize are
// in its public description, the rest follows them.
var taskKinds = map[string]string{
	"update_compose": "compose_update", "update_envs": "env_update", "update_os_image": "os_image_update", "update_resources": "resize",
	"start": "power_on", "stop": "power_off",
}

// operations lists the operations on a CVM, in the form of the platform's public description of its
// API; no client has a schema of it.
func (s *Server) operations(r *http.Request) (int, any, error) {
	if s.cfg.Cloud.Settings().NoOperations {
		return http.StatusNotFound, map[string]any{"detail": "Not Found"}, nil
	}
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	all, err := s.cfg.Cloud.Tasks(v.VMUUID)
	if err != nil {
		return 0, nil, err
	}
	query := r.URL.Query()
	from, _ := time.Parse(time.RFC3339, query.Get("start_time"))
	kinds := query["operation_types"]
	var rows []any
	for _, t := range all {
		kind := t.Operation
		if word, ok := taskKinds[kind]; ok {
			kind = word
		}
		if t.StartedAt.Before(from) || len(kinds) > 0 && !slices.Contains(kinds, kind) {
			continue
		}
		rows = append(rows, taskView(v, t, kind))
	}
	limit, err := strconv.Atoi(query.Get("limit"))
	switch {
	case query.Get("limit") == "":
		limit = 50
	case err != nil || limit < 1 || limit > 500:
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "limit", Message: "want 1 to 500"}
	}
	at := min(atLeast(query.Get("cursor"), 0, 0), len(rows))
	next := any(nil)
	if at+limit < len(rows) {
		next = strconv.Itoa(at + limit)
	}
	page := append([]any{}, rows[at:min(at+limit, len(rows))]...)
	return http.StatusOK, map[string]any{"items": page, "total": len(rows), "next_cursor": next}, nil
}

func taskView(v cloud.CVM, t cloud.Task, kind string) map[string]any {
	status, took := "completed", any(nil)
	switch {
	case t.EndedAt.IsZero():
		status = "in_progress"
	case t.Error != "":
		status = "failed"
	}
	events := []any{map[string]any{"event_type": "instance." + kind + ".start", "timestamp": timeOrNil(t.StartedAt), "state": string(t.Target)}}
	if !t.EndedAt.IsZero() {
		took = t.EndedAt.Sub(t.StartedAt).Milliseconds()
		events = append(events, map[string]any{"event_type": "instance." + kind + "." + status, "timestamp": timeOrNil(t.EndedAt), "state": string(t.Target)})
	}
	return map[string]any{
		"correlation_id": t.CorrelationID, "operation_type": kind, "target_state": string(t.Target), "triggered_by": 1, "triggered_by_username": "local",
		"triggered_by_email": nil, "started_at": timeOrNil(t.StartedAt), "completed_at": timeOrNil(t.EndedAt), "duration_ms": took, "status": status,
		"error_message": orNil(t.Error), "sub_operations": []any{}, "events": events, "instance_name": v.Name, "compose_hash": orNil(t.ComposeHash),
	}
}
