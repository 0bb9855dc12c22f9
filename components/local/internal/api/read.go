package api

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/local/internal/cloud"
)

func (s *Server) listApps(r *http.Request) (int, any, error) {
	apps := s.cfg.Cloud.Apps()
	rows := make([]any, 0, len(apps))
	for _, a := range apps {
		rows = append(rows, s.appView(a))
	}
	cut, meta := page(r, rows)
	meta["dstack_apps"], meta["total_pages"] = cut, meta["pages"]
	return http.StatusOK, meta, nil
}

func (s *Server) getApp(r *http.Request) (int, any, error) {
	a, err := s.cfg.Cloud.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.appView(a), nil
}

func (s *Server) appCVMs(r *http.Request) (int, any, error) {
	a, err := s.cfg.Cloud.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.views(s.cfg.Cloud.List(a.ID)), nil
}

func (s *Server) listCVMs(r *http.Request) (int, any, error) {
	cut, meta := page(r, s.views(s.cfg.Cloud.List("")))
	meta["items"] = cut
	return http.StatusOK, meta, nil
}

func (s *Server) views(list []cloud.CVM) []any {
	out := make([]any, 0, len(list))
	for _, v := range list {
		out = append(out, s.cvmView(v))
	}
	return out
}

func (s *Server) getCVM(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	if before(r, "2026-01-21") {
		return http.StatusOK, s.detailView(r, v), nil
	}
	view := s.cvmView(v)
	if raw, err := s.cfg.Cloud.Compose(v.AppID, v.ComposeHash); err == nil {
		view["compose_file"] = json.RawMessage(raw)
	}
	return http.StatusOK, view, nil
}

func (s *Server) getCompose(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	text, err := s.cfg.Cloud.Compose(v.AppID, v.ComposeHash)
	if err != nil {
		return 0, nil, err
	}
	// The exact bytes: their SHA-256 is the compose hash.
	return http.StatusOK, raw{"application/json", text}, nil
}

func (s *Server) batch(r *http.Request) (int, any, error) {
	var req struct {
		UUIDs []string `json:"vm_uuids"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	out := map[string]any{}
	for _, id := range req.UUIDs {
		if v, err := s.cfg.Cloud.Find(id); err == nil {
			out[id] = statusView(v)
		}
	}
	return http.StatusOK, out, nil
}

// state answers once, or streams events until the target is reached.
func (s *Server) state(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		return http.StatusOK, statusView(v), nil
	}
	target := r.URL.Query().Get("target")
	interval := time.Duration(min(atLeast(r.URL.Query().Get("interval"), 5, 5), 30)) * time.Second
	limit := time.Duration(min(atLeast(r.URL.Query().Get("timeout"), 10, 300), 600)) * time.Second
	return 0, func(w http.ResponseWriter, r *http.Request) { s.streamState(w, r, v.VMUUID, target, interval, limit) }, nil
}

func (s *Server) streamState(w http.ResponseWriter, r *http.Request, uuid, target string, interval, limit time.Duration) {
	w.Header().Set("Content-Type", "text/event-stream")
	began := time.Now()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	send := func(event string, data any) {
		text, _ := json.Marshal(data)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, text)
		_ = http.NewResponseController(w).Flush()
	}
	for {
		v, err := s.cfg.Cloud.Find(uuid)
		if err != nil {
			send("error", map[string]any{"status": "gone", "message": err.Error()})
			return
		}
		data := map[string]any{"status": v.Status, "target": target, "elapsed": time.Since(began).Seconds(), "in_progress": v.Progress != nil}
		send("state", data)
		if target != "" && string(v.Status) == target && v.Progress == nil {
			send("complete", data)
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			send("timeout", data)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// revisions lists newest first.
func (s *Server) revisions(r *http.Request) (int, any, error) {
	a, err := s.cfg.Cloud.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	rows := make([]any, 0, len(a.Revisions))
	for _, rev := range slices.Backward(a.Revisions) {
		rows = append(rows, revisionView(a, rev))
	}
	cut, meta := page(r, rows)
	meta["items"], meta["revisions"], meta["total_pages"] = cut, cut, meta["pages"]
	return http.StatusOK, meta, nil
}

func (s *Server) revision(r *http.Request) (int, any, error) {
	a, err := s.cfg.Cloud.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	for _, rev := range a.Revisions {
		if rev.ID == r.PathValue("rev") {
			view := revisionView(a, rev)
			view["compose_file"] = json.RawMessage(a.Composes[rev.ComposeHash])
			// Clients expect texts here; the answer does not repeat the environment.
			view["encrypted_env"], view["user_config"] = "", ""
			return http.StatusOK, view, nil
		}
	}
	return 0, nil, &cloud.Error{Kind: cloud.NotFound, Message: "Revision not found"}
}

// nodeCount is how many nodes are shown; all are this machine.
const nodeCount = 3

func (s *Server) nodes(*http.Request) (int, any, error) {
	images := make([]any, 0, len(s.cfg.Images))
	for _, name := range s.cfg.Images {
		images = append(images, map[string]any{"name": name, "is_dev": false, "version": versionOf(name), "os_image_hash": nil})
	}
	var nodes []any
	for id := 1; id <= nodeCount; id++ {
		nodes = append(nodes, map[string]any{
			"teepod_id": id, "node_id": id, "name": nodeName(id), "listed": true, "resource_score": 1.0, "remaining_vcpu": 64,
			"remaining_memory": 65536, "remaining_cvm_slots": 100, "images": images, "support_onchain_kms": false, "fmspc": nil, "device_id": nil,
			"region_identifier": "local", "default_kms": kmsID, "kms_list": []string{kmsID},
		})
	}
	return http.StatusOK, map[string]any{
		"tier": "local", "capacity": map[string]any{"max_instances": 300}, "nodes": nodes,
		"kms_list": []any{s.kmsView()},
	}, nil
}

func (s *Server) osImages(*http.Request) (int, any, error) {
	items := make([]any, 0, len(s.cfg.Images))
	for _, name := range s.cfg.Images {
		items = append(items, map[string]any{
			"name": name, "slug": ImageSlug(name), "version": strings.TrimPrefix(name, "dstack-"), "is_dev": false, "os_image_hash": nil, "requires_gpu": false,
		})
	}
	return http.StatusOK, map[string]any{"items": items, "total": len(items), "page": 1, "page_size": len(items), "pages": 1}, nil
}

// versionOf is the version of a dstack image in the form that nodes report: its three or four
// numbers.
func versionOf(image string) []int {
	out := []int{}
	for part := range strings.SplitSeq(strings.TrimPrefix(image, "dstack-"), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	for len(out) < 3 {
		out = append(out, 0)
	}
	return out[:min(len(out), 4)]
}

// family is the only one of instance types here.
const family = "cpu"

func instanceTypeViews() []any {
	items := []any{}
	for _, t := range cloud.InstanceTypes {
		items = append(items, map[string]any{
			"id": t.Name, "name": t.Name, "description": "", "vcpu": t.VCPU, "memory_mb": t.MemoryMB, "hourly_rate": "0",
			"requires_gpu": false, "requires_gpu_count": 0, "default_disk_size_gb": 20, "family": family,
		})
	}
	return items
}

func (s *Server) instanceTypes(*http.Request) (int, any, error) {
	items := instanceTypeViews()
	return http.StatusOK, map[string]any{"result": []any{map[string]any{"name": family, "items": items, "total": len(items)}}}, nil
}

func (s *Server) instanceFamily(r *http.Request) (int, any, error) {
	if r.PathValue("family") != family {
		return 0, nil, &cloud.Error{Kind: cloud.NotFound, Message: "Instance type family not found"}
	}
	items := instanceTypeViews()
	return http.StatusOK, map[string]any{"items": items, "total": len(items), "family": family}, nil
}

func (s *Server) nextAppID(r *http.Request) (int, any, error) {
	var ids []any
	for range min(atLeast(r.URL.Query().Get("counts"), 1, 1), 20) {
		id, nonce, err := s.cfg.Cloud.NextAppID()
		if err != nil {
			return 0, nil, err
		}
		ids = append(ids, map[string]any{"app_id": id, "nonce": nonce})
	}
	return http.StatusOK, map[string]any{"app_ids": ids}, nil
}

func (s *Server) pubkey(r *http.Request) (int, any, error) {
	id := cloud.BareID(r.PathValue("app"))
	if b, err := hex.DecodeString(id); err != nil || len(b) != 20 {
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "app_id", Message: "want 40 hex characters"}
	}
	reply := map[string]any{"public_key": s.envPubkey(id)}
	if s.cfg.SignEnvKey != nil {
		now := uint64(time.Now().Unix())
		legacy, v1, err := s.cfg.SignEnvKey(id, now)
		if err != nil {
			return 0, nil, fmt.Errorf("sign env key: %w", err)
		}
		reply["signature"] = hex.EncodeToString(legacy)
		if !before(r, "2026-05-22") {
			reply["timestamp"], reply["signature_v1"] = now, hex.EncodeToString(v1)
		}
	}
	return http.StatusOK, reply, nil
}
