package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"cadre.dev/local/internal/appcompose"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fault"
)

// number accepts 7 and "7": the API was seen to use both.
type number uint64

func (n *number) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "null" || text == "" {
		return nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	*n = number(v)
	return err
}

type createRequest struct {
	Name         string            `json:"name"`
	InstanceType string            `json:"instance_type"`
	KMS          string            `json:"kms"`
	TeepodID     number            `json:"teepod_id"`
	NodeID       number            `json:"node_id"`
	Image        string            `json:"image"`
	DiskSize     int               `json:"disk_size"`
	Listed       *bool             `json:"listed"`
	AppID        string            `json:"app_id"`
	Nonce        *uint64           `json:"nonce"`
	Compose      appcompose.Fields `json:"compose_file"`
}

func (s *Server) provision(r *http.Request) (int, any, error) {
	var req createRequest
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	switch {
	case req.KMS != "" && req.KMS != "PHALA":
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "kms", Message: "only PHALA is offered here"}
	case req.Nonce != nil && req.AppID == "":
		return 0, nil, &cloud.Error{Kind: cloud.BadField, Field: "nonce", Message: "app_id is required with a nonce"}
	}
	image, err := s.image(req.Image)
	if err != nil {
		return 0, nil, err
	}
	node := req.NodeID
	if node == 0 {
		node = req.TeepodID
	}
	p, err := s.cfg.Cloud.Provision(cloud.Shape{
		Name: req.Name, OSImage: image, InstanceType: req.InstanceType, DiskGB: req.DiskSize, NodeID: int(node),
		Listed: req.Listed == nil || *req.Listed, // as the real server, which publishes by default
	}, req.Compose, req.AppID, orZero(req.Nonce))
	if err != nil {
		return 0, nil, err
	}
	fault.About(r.Context(), req.Name)
	reply := s.provisioned(p)
	reply["instance_type"], reply["node_id"], reply["teepod_id"] = p.Shape.InstanceType, p.Shape.NodeID, p.Shape.NodeID
	return http.StatusOK, reply, nil
}

func (s *Server) provisioned(p cloud.Provisioned) map[string]any {
	key := s.envPubkey(p.AppID)
	kms := s.kmsView()
	kms["encrypted_env_pubkey"] = key
	return map[string]any{
		"app_id": p.AppID, "compose_hash": p.ComposeHash, "app_env_encrypt_pubkey": key,
		"kms_info": kms, "kms_id": kmsID, "fmspc": nil, "device_id": nil, "os_image_hash": nil,
	}
}

func (s *Server) commit(r *http.Request) (int, any, error) {
	var req struct {
		AppID        string `json:"app_id"`
		ComposeHash  string `json:"compose_hash"`
		EncryptedEnv string `json:"encrypted_env"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	v, err := s.cfg.Cloud.Commit(req.AppID, req.ComposeHash, req.EncryptedEnv)
	if err != nil {
		return 0, nil, err
	}
	fault.About(r.Context(), v.Name)
	return http.StatusOK, s.machineView(r, v), nil
}

func (s *Server) addInstance(r *http.Request) (int, any, error) {
	var req struct {
		Name         string  `json:"name"`
		NodeID       number  `json:"node_id"`
		ComposeHash  string  `json:"compose_hash"`
		Compose      *string `json:"docker_compose_file"`
		PreLaunch    string  `json:"pre_launch_script"`
		EncryptedEnv string  `json:"encrypted_env"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	fault.About(r.Context(), req.Name)
	var fields *appcompose.Fields
	if req.Compose != nil {
		fields = &appcompose.Fields{DockerComposeFile: *req.Compose, PreLaunchScript: req.PreLaunch}
	}
	v, err := s.cfg.Cloud.AddInstance(r.PathValue("app"), req.Name, req.ComposeHash, fields, int(req.NodeID), req.EncryptedEnv)
	if err != nil {
		return 0, nil, err
	}
	fault.About(r.Context(), v.Name)
	view := s.machineView(r, v)
	if !before(r, "2026-05-22") {
		view = s.cvmView(v)
	}
	return http.StatusOK, view, nil
}

func (s *Server) provisionUpdate(r *http.Request) (int, any, error) {
	var fields appcompose.Fields
	if err := decode(r, &fields); err != nil {
		return 0, nil, err
	}
	p, err := s.cfg.Cloud.ProvisionUpdate(r.PathValue("cvm"), fields)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.provisioned(p), nil
}

func (s *Server) patchCompose(r *http.Request) (int, any, error) {
	var req struct {
		ComposeHash  string `json:"compose_hash"`
		EncryptedEnv string `json:"encrypted_env"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	c, err := s.cfg.Cloud.ApplyCompose(r.PathValue("cvm"), cloud.BareID(req.ComposeHash), req.EncryptedEnv)
	return accepted(c, err)
}

func (s *Server) patchEnvs(r *http.Request) (int, any, error) {
	var req struct {
		EncryptedEnv string   `json:"encrypted_env"`
		EnvKeys      []string `json:"env_keys"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	c, err := s.cfg.Cloud.UpdateEnv(r.PathValue("cvm"), req.EncryptedEnv, req.EnvKeys)
	code, body, err := accepted(c, err)
	if m, ok := body.(map[string]any); ok {
		m["allowed_envs_changed"] = c.EnvsChanged
	}
	return code, body, err
}

func (s *Server) patchImage(r *http.Request) (int, any, error) {
	var req struct {
		Name string `json:"os_image_name"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	if _, err := s.cfg.Cloud.Find(r.PathValue("cvm")); err != nil {
		return 0, nil, err
	}
	image, err := s.image(req.Name)
	if err != nil {
		return 0, nil, err
	}
	return accepted(s.cfg.Cloud.UpdateImage(r.PathValue("cvm"), image))
}

func (s *Server) patchResources(r *http.Request) (int, any, error) {
	var req struct {
		InstanceType string `json:"instance_type"`
		DiskSize     int    `json:"disk_size"`
		VCPU         number `json:"vcpu"`
		Memory       number `json:"memory"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	size, err := sizeOf(req.InstanceType, int(req.VCPU), int(req.Memory))
	if err != nil {
		return 0, nil, err
	}
	return accepted(s.cfg.Cloud.UpdateResources(r.PathValue("cvm"), size, req.DiskSize))
}

func (s *Server) patchName(r *http.Request) (int, any, error) {
	var req struct {
		Name string `json:"name"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, s.cfg.Cloud.Rename(r.PathValue("cvm"), req.Name)
}

// sizeOf is the instance type of a request that names one, or vCPUs and memory of one; ""
// where it names neither.
func sizeOf(name string, vcpu, memory int) (string, error) {
	if vcpu == 0 && memory == 0 {
		return name, nil
	}
	for _, t := range cloud.InstanceTypes {
		if (name == "" || name == t.Name) && (vcpu == 0 || vcpu == t.VCPU) && (memory == 0 || memory == t.MemoryMB) {
			return t.Name, nil
		}
	}
	return "", &cloud.Error{Kind: cloud.BadField, Field: "vcpu", Message: "sizes here are those of instance types; send instance_type instead"}
}

// accepted is the answer to an in-place update.
func accepted(c cloud.Change, err error) (int, any, error) {
	if err != nil {
		return 0, nil, err
	}
	body := map[string]any{"status": "in_progress", "message": "Update accepted", "correlation_id": c.Correlation}
	if c.Correlation == "" {
		body = map[string]any{"status": "no_change", "message": "Nothing to update", "correlation_id": nil}
	}
	return http.StatusAccepted, body, nil
}

func (s *Server) power(p cloud.Power) handler {
	return func(r *http.Request) (int, any, error) {
		c, err := s.cfg.Cloud.SetPower(r.PathValue("cvm"), p)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusOK, s.machineView(r, c.CVM), nil
	}
}

func (s *Server) restart(r *http.Request) (int, any, error) {
	var req struct {
		Force bool `json:"force"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	if req.Force {
		return s.power(cloud.PowerForceRestart)(r)
	}
	return s.power(cloud.PowerRestart)(r)
}

func (s *Server) deleteCVM(r *http.Request) (int, any, error) {
	return http.StatusNoContent, nil, s.cfg.Cloud.Delete(r.PathValue("cvm"))
}

func (s *Server) redeploy(r *http.Request) (int, any, error) {
	var req struct {
		UUIDs        []string `json:"vm_uuids"`
		EncryptedEnv string   `json:"encrypted_env"`
	}
	if err := decode(r, &req); err != nil {
		return 0, nil, err
	}
	if len(req.UUIDs) == 1 {
		if v, err := s.cfg.Cloud.Find(req.UUIDs[0]); err == nil {
			fault.About(r.Context(), v.Name)
		}
	}
	correlation, err := s.cfg.Cloud.Redeploy(r.PathValue("app"), r.PathValue("rev"), req.UUIDs, req.EncryptedEnv)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, map[string]any{"message": "Redeploy accepted", "correlation_id": correlation, "status": "in_progress"}, nil
}

// redeployOne is redeploy of the CVM in the path.
func (s *Server) redeployOne(r *http.Request) (int, any, error) {
	v, err := s.cfg.Cloud.Find(r.PathValue("cvm"))
	if err != nil {
		return 0, nil, err
	}
	correlation, err := s.cfg.Cloud.Redeploy(v.AppID, r.PathValue("rev"), []string{v.VMUUID}, "")
	if err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, map[string]any{"message": "Redeploy accepted", "correlation_id": correlation, "status": "in_progress"}, nil
}

var _ json.Unmarshaler = (*number)(nil)

func orZero[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}
