package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"cadre.dev/local/internal/appcompose"
	"cadre.dev/local/internal/cloud"
)

// Endpoints for official clients, which Cadre's own driver does not call.

// kmsID names the only key service here.
const kmsID = "phala"

// kmsView is the key service, in the form of replies that name it in full.
func (s *Server) kmsView() map[string]any {
	return map[string]any{
		"id": kmsID, "slug": kmsID, "url": "https://kms." + s.cfg.Domain, "version": "local", "chain_id": nil,
		"kms_contract_address": nil, "gateway_app_id": nil, "kms_type": kmsID,
	}
}

// contractView is the same since API version 2026-06-23, which groups nodes by contract.
func contractView() map[string]any {
	return map[string]any{"id": kmsID, "slug": kmsID, "label": kmsID, "contract_address": kmsID, "chain_id": 0, "k256_pubkey": nil, "ca_pubkey": nil, "node_count": 1}
}

func (s *Server) kmsFor(r *http.Request) map[string]any {
	if before(r, "2026-06-23") {
		return s.kmsView()
	}
	return contractView()
}

func (s *Server) kmsList(r *http.Request) (int, any, error) {
	items, meta := page(r, []any{s.kmsFor(r)})
	meta["items"] = items
	return http.StatusOK, meta, nil
}

func (s *Server) kmsInfo(r *http.Request) (int, any, error) {
	if r.PathValue("kms") != kmsID {
		return 0, nil, &cloud.Error{Kind: cloud.NotFound, Message: "KMS not found"}
	}
	return http.StatusOK, s.kmsFor(r), nil
}

func (s *Server) kmsNodes(r *http.Request) (int, any, error) {
	if r.PathValue("kms") != kmsID {
		return 0, nil, &cloud.Error{Kind: cloud.NotFound, Message: "KMS not found"}
	}
	return http.StatusOK, map[string]any{"items": []any{s.kmsView()}, "total": 1}, nil
}

// ImageSlug is the full name of an OS image, the only form that requests may use.
func ImageSlug(name string) string {
	sum := sha256.Sum256([]byte(name))
	return name + "-" + hex.EncodeToString(sum[:4])
}

// image is the image of a full name; "" for none.
func (s *Server) image(slug string) (string, error) {
	if slug == "" {
		return "", nil
	}
	for _, name := range s.cfg.Images {
		if ImageSlug(name) == slug {
			return name, nil
		}
	}
	return "", &cloud.Error{Kind: cloud.NoImage, Message: "OS image not found; name it in full, as GET /os-images shows it"}
}

// imagesFor groups the images as a CVM may change to them.
func (s *Server) imagesFor(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	out := []any{}
	for _, name := range s.cfg.Images {
		out = append(out, map[string]any{
			"version": versionOf(name), "dev": nil,
			"prod": map[string]any{"name": ImageSlug(name), "os_image_hash": nil, "is_current": name == v.OSImage},
		})
	}
	return http.StatusOK, out, nil
}

// document is the app-compose.json of the CVM in the path.
func (s *Server) document(r *http.Request) (appcompose.Parsed, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return appcompose.Parsed{}, err
	}
	text, err := s.cfg.Cloud.Compose(v.AppID, v.ComposeHash)
	if err != nil {
		return appcompose.Parsed{}, err
	}
	return appcompose.Parse(text)
}

func (s *Server) composeText(r *http.Request) (int, any, error) {
	doc, err := s.document(r)
	return http.StatusOK, raw{"text/yaml", []byte(doc.DockerComposeFile)}, err
}

func (s *Server) scriptText(r *http.Request) (int, any, error) {
	doc, err := s.document(r)
	return http.StatusOK, raw{"text/plain", []byte(doc.PreLaunchScript)}, err
}

func (s *Server) network(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{
		"is_online": v.Status == cloud.Running, "is_public": true, "error": nil, "internal_ip": nil, "latest_handshake": nil, "public_urls": s.cvmView(v)["public_urls"],
	}, nil
}

func (s *Server) userConfig(r *http.Request) (int, any, error) {
	_, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	return http.StatusOK, map[string]any{"hostname": nil, "ssh_authorized_keys": []string{}, "default_gateway_domain": nil}, err
}

func (s *Server) sshKeys(*http.Request) (int, any, error) { return http.StatusOK, []any{}, nil }

func (s *Server) deviceAllowlist(r *http.Request) (int, any, error) {
	_, err := s.cfg.Cloud.App(r.PathValue("app"))
	return http.StatusOK, map[string]any{"is_onchain_kms": false, "allow_any_device": nil, "chain_id": nil, "app_contract_address": nil, "devices": []any{}}, err
}

// refreshInstanceID reports that the id is right: it never goes stale here.
func (s *Server) refreshInstanceID(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	id := any(v.ID)
	if before(r, "2026-05-22") {
		id = v.Num
	}
	return http.StatusOK, map[string]any{
		"cvm_id": id, "identifier": v.VMUUID, "status": "unchanged", "old_instance_id": orNil(v.InstanceID), "new_instance_id": orNil(v.InstanceID),
		"source": "teepod_info", "verified_with_gateway": false, "reason": nil,
	}, nil
}

// replicate makes one more CVM of the app of the CVM in the path.
func (s *Server) replicate(r *http.Request) (int, any, error) {
	var req struct {
		NodeID number `json:"node_id"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	made, err := s.cfg.Cloud.AddInstance(v.AppID, "", v.ComposeHash, nil, int(req.NodeID), v.EncryptedEnv)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.machineView(r, made), nil
}

func (s *Server) patchDockerCompose(r *http.Request) (int, any, error) {
	body, err := text(r)
	if err != nil {
		return 0, nil, err
	}
	return s.patch(r, cloud.Patch{Compose: func(f *appcompose.Fields) { f.DockerComposeFile = body }})
}

func (s *Server) patchScript(r *http.Request) (int, any, error) {
	body, err := text(r)
	if err != nil {
		return 0, nil, err
	}
	return s.patch(r, cloud.Patch{Compose: func(f *appcompose.Fields) { f.PreLaunchScript = body }})
}

func (s *Server) patch(r *http.Request, p cloud.Patch) (int, any, error) {
	return accepted(s.cfg.Cloud.UpdateAll(r.PathValue("cvm"), p))
}

// visibility decides which readers see which parts of a CVM; nil stays unchanged.
type visibility struct {
	Logs    *bool `json:"public_logs"`
	Sysinfo *bool `json:"public_sysinfo"`
	Tcbinfo *bool `json:"public_tcbinfo"`
}

func (v visibility) set(f *appcompose.Fields) {
	for _, s := range []struct{ to, from **bool }{{&f.PublicLogs, &v.Logs}, {&f.PublicSysinfo, &v.Sysinfo}, {&f.PublicTcbinfo, &v.Tcbinfo}} {
		if *s.from != nil {
			*s.to = *s.from
		}
	}
}

// patchVisibility answers with the CVM in its oldest form, in every version.
func (s *Server) patchVisibility(r *http.Request) (int, any, error) {
	var req visibility
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	c, err := s.cfg.Cloud.UpdateAll(r.PathValue("cvm"), cloud.Patch{Compose: req.set})
	if err != nil {
		return 0, nil, err
	}
	reply := s.machineView(r, c.CVM)
	reply["id"] = c.CVM.Num
	return http.StatusOK, reply, nil
}

// patchCVM changes several things with one restart. The server builds the document again.
func (s *Server) patchCVM(r *http.Request) (int, any, error) {
	if s.cfg.Cloud.Settings().NoPatch {
		return http.StatusMethodNotAllowed, map[string]any{"detail": "Method Not Allowed"}, nil
	}
	if r.Header.Get("X-Prepare-Only") != "" || r.Header.Get("X-Compose-Hash") != "" || r.Header.Get("X-Transaction-Hash") != "" {
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "X-Prepare-Only", Message: "there is no key service on a chain here"}
	}
	var req struct {
		Compose      *string         `json:"docker_compose_file"`
		Script       *string         `json:"pre_launch_script"`
		AllowedEnvs  []string        `json:"allowed_envs"`
		Logs         *bool           `json:"public_logs"`
		Sysinfo      *bool           `json:"public_sysinfo"`
		Tcbinfo      *bool           `json:"public_tcbinfo"`
		EncryptedEnv string          `json:"encrypted_env"`
		UserConfig   json.RawMessage `json:"user_config"`
		GPUs         json.RawMessage `json:"gpus"`
		VCPU         int             `json:"vcpu"`
		Memory       int             `json:"memory"`
		DiskSize     int             `json:"disk_size"`
		InstanceType string          `json:"instance_type"`
		Image        string          `json:"image"`
		Timeout      int             `json:"shutdown_timeout"`
		ForceStop    *bool           `json:"allow_force_stop"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	if req.Timeout != 0 && (req.Timeout < 10 || req.Timeout > 1200) {
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "shutdown_timeout", Message: "want 10 to 1200 seconds"}
	}
	if req.UserConfig != nil || req.GPUs != nil {
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "user_config", Message: "user_config and gpus are not offered here"}
	}
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	p := cloud.Patch{EncryptedEnv: req.EncryptedEnv, ShutdownTimeout: req.Timeout}
	p.DiskGB = req.DiskSize
	if p.OSImage, err = s.image(req.Image); err != nil {
		return 0, nil, err
	}
	if p.InstanceType, err = sizeOf(req.InstanceType, req.VCPU, req.Memory); err != nil {
		return 0, nil, err
	}
	shown := visibility{req.Logs, req.Sysinfo, req.Tcbinfo}
	if req.Compose != nil || req.Script != nil || req.AllowedEnvs != nil || shown != (visibility{}) {
		p.Compose = func(f *appcompose.Fields) {
			if req.Compose != nil {
				f.DockerComposeFile = *req.Compose
			}
			if req.Script != nil {
				f.PreLaunchScript = *req.Script
			}
			if req.AllowedEnvs != nil {
				f.AllowedEnvs = req.AllowedEnvs
			}
			shown.set(f)
		}
	}
	return accepted(s.cfg.Cloud.UpdateAll(v.VMUUID, p))
}

// workspaceNodes and workspaceQuotas are of the only workspace.
func (s *Server) workspaceNodes(r *http.Request) (int, any, error) {
	var nodes []any
	for id := 1; id <= nodeCount; id++ {
		nodes = append(nodes, nodeView(id))
	}
	items, meta := page(r, nodes)
	meta["items"] = items
	return http.StatusOK, meta, nil
}

func (s *Server) workspaceQuotas(*http.Request) (int, any, error) {
	metric := func(limit, used int) map[string]any { return map[string]any{"limit": limit, "remaining": limit - used} }
	used := len(s.cfg.Cloud.List(""))
	return http.StatusOK, map[string]any{
		"team_slug": workspaceID, "tier": "local", "as_of": time.Now().UTC().Format(time.RFC3339), "reserved_nodes": metric(0, 0),
		"quotas":       map[string]any{"vm_slots": metric(300, used), "vcpu": metric(1<<10, used), "memory_mb": metric(1<<20, used), "disk_gb": metric(1<<20, used)},
		"reserved_gpu": map[string]any{"gpus": metric(0, 0), "in_use": 0, "misconfigured": 0},
	}, nil
}
