package api

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cadre.dev/local/internal/cloud"
)

// cvmView is the CVM object. Early in a create most of it is null.
func (s *Server) cvmView(v cloud.CVM) map[string]any {
	envKey := s.envPubkey(v.AppID)
	progress := map[string]any{"target": nil, "started_at": nil, "correlation_id": nil}
	busy := false
	if p := v.Progress; p != nil && p.Shown {
		busy = true
		progress = map[string]any{"target": p.Target, "started_at": timeOrNil(p.StartedAt), "correlation_id": p.CorrelationID}
	}
	size, _ := cloud.InstanceTypeNamed(v.InstanceType)
	endpoints := []any{}
	if v.InstanceID != "" {
		endpoints = append(endpoints, map[string]any{
			"app":      "https://" + v.AppID + "-8080." + s.cfg.Domain,
			"instance": "https://" + v.InstanceID + "-8080." + s.cfg.Domain,
		})
	}
	return map[string]any{
		"id": v.ID, "name": v.Name, "app_id": "app_" + v.AppID, "vm_uuid": v.VMUUID, "instance_id": orNil(v.InstanceID),
		"status": v.Status, "in_progress": busy, "progress": progress, "compose_hash": v.ComposeHash,
		"resource":  map[string]any{"instance_type": v.InstanceType, "vcpu": size.VCPU, "memory_in_gb": size.MemoryMB / 1024, "disk_in_gb": v.DiskGB, "gpus": 0},
		"node_info": nodeView(v.NodeID),
		"os":        map[string]any{"name": ImageSlug(v.OSImage), "version": strings.TrimPrefix(v.OSImage, "dstack-"), "is_dev": false, "os_image_hash": nil},
		"kms_type":  kmsID, "kms_info": map[string]any{"chain_id": nil, "encrypted_env_pubkey": envKey}, "encrypted_env_pubkey": envKey,
		"gateway":   map[string]any{"base_domain": s.cfg.Domain, "cname": nil},
		"endpoints": endpoints, "public_urls": endpoints, "public_logs": true, "public_sysinfo": true, "public_tcbinfo": true,
		"gateway_enabled": true, "listed": v.Listed, "disk_size": v.DiskGB, "boot_error": orNil(v.BootError),
		"workspace": workspaceRef(), "creator": userRef(),
		"created_at": timeOrNil(v.CreatedAt), "updated_at": timeOrNil(v.UpdatedAt), "deleted_at": nil,
	}
}

// before says that the request asks for an API version older than this one; a request
// without a version asks for the newest.
func before(r *http.Request, version string) bool {
	asked := r.Header.Get("X-Phala-Version")
	return asked != "" && asked < version
}

// machineView is the answer to creates and power operations: the older object of a CVM, whose id is
// a number before API version 2026-05-22.
func (s *Server) machineView(r *http.Request, v cloud.CVM) map[string]any {
	size, _ := cloud.InstanceTypeNamed(v.InstanceType)
	id := any(v.ID)
	if before(r, "2026-05-22") {
		id = v.Num
	}
	return map[string]any{
		"id": id, "name": v.Name, "app_id": "app_" + v.AppID, "vm_uuid": v.VMUUID, "instance_id": orNil(v.InstanceID), "status": v.Status,
		"in_progress": v.Progress != nil, "progress": nil, "created_at": timeOrNil(v.CreatedAt), "user_id": nil,
		"teepod_id": v.NodeID, "teepod": map[string]any{"id": v.NodeID, "name": nodeName(v.NodeID)},
		"vcpu": size.VCPU, "memory": size.MemoryMB, "disk_size": v.DiskGB, "base_image": v.OSImage,
		"encrypted_env_pubkey": s.envPubkey(v.AppID), "docker_compose_file": nil,
	}
}

// detailView is the CVM object of 2025-10-28, by which npm phala reads a CVM that it updates.
func (s *Server) detailView(r *http.Request, v cloud.CVM) map[string]any {
	out, newer := s.machineView(r, v), s.cvmView(v)
	kms := s.kmsView()
	kms["encrypted_env_pubkey"] = newer["encrypted_env_pubkey"]
	out["in_progress"], out["base_image"] = newer["in_progress"], ImageSlug(v.OSImage)
	out["instance_type"], out["listed"], out["kms_info"], out["gateway_domain"] = v.InstanceType, v.Listed, kms, s.cfg.Domain
	for _, same := range []string{"public_urls", "public_logs", "public_sysinfo", "public_tcbinfo", "compose_hash", "updated_at"} {
		out[same] = newer[same]
	}
	return out
}

func statusView(v cloud.CVM) map[string]any {
	busy := v.Progress != nil && v.Progress.Shown
	var operation any
	if busy {
		operation = map[string]any{
			"type": v.Progress.Operation, "phase": v.Status, "started_at": timeOrNil(v.Progress.StartedAt), "correlation_id": v.Progress.CorrelationID,
		}
	}
	uptime := ""
	if v.Status == cloud.Running {
		uptime = time.Since(v.BootedAt).Round(time.Second).String()
	}
	return map[string]any{
		"vm_uuid": v.VMUUID, "name": v.Name, "status": v.Status, "uptime": uptime, "in_progress": busy, "boot_progress": v.BootProgress,
		"boot_error": v.BootError, "shutdown_progress": "", "operation": operation,
	}
}

func (s *Server) appView(a cloud.App) map[string]any {
	cvms := s.views(s.cfg.Cloud.List(a.ID))
	var current any
	if len(cvms) > 0 {
		current = cvms[0]
	}
	return map[string]any{
		"id": "app_" + a.ID, "app_id": a.ID, "name": a.Name, "app_provision_type": nil, "app_icon_url": nil, "kms_type": "phala",
		"compose_hash": a.Template, "current_cvm": current, "cvms": cvms, "cvm_count": len(cvms), "created_at": timeOrNil(a.CreatedAt),
	}
}

func revisionView(a cloud.App, r cloud.Revision) map[string]any {
	return map[string]any{
		"revision_id": r.ID, "app_id": "app_" + a.ID, "vm_uuid": r.VMUUID, "compose_hash": r.ComposeHash, "created_at": timeOrNil(r.CreatedAt),
		"trace_id": r.TraceID, "operation_type": r.Operation, "triggered_by": userRef(), "cvm": nil, "workspace": workspaceRef(),
	}
}

func (s *Server) envPubkey(appID string) string {
	key, err := s.cfg.EnvKey(appID)
	if err != nil {
		s.cfg.Log.Error("env key not derived", "error", err)
		return ""
	}
	return hex.EncodeToString(key.PublicKey().Bytes())
}

// page cuts items by ?page and ?page_size.
func page[T any](r *http.Request, items []T) (cut []T, meta map[string]any) {
	number := atLeast(r.URL.Query().Get("page"), 1, 1)
	size := min(atLeast(r.URL.Query().Get("page_size"), 1, 30), 100)
	from := min((number-1)*size, len(items))
	cut = items[from:min(from+size, len(items))]
	return cut, map[string]any{"total": len(items), "page": number, "page_size": size, "pages": (len(items) + size - 1) / size}
}

func atLeast(text string, low, def int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > 1<<20 {
		return def
	}
	return n
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func nodeView(id int) map[string]any {
	return map[string]any{"object_type": "node", "id": id, "name": nodeName(id), "region": "local", "status": "ONLINE"}
}

func nodeName(id int) string { return "local-" + strconv.Itoa(id) }
