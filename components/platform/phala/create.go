package phala

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
)

// nameForm is the platform's rule for the name of a CVM.
var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{4,62}$`)

const createAttempts = 3

// maxCompose is the platform's bound on compose file and script together.
const maxCompose = 200 << 10

type composeFile struct {
	Name           string   `json:"name"`
	Compose        string   `json:"docker_compose_file"`
	AllowedEnvs    []string `json:"allowed_envs"`
	GatewayEnabled bool     `json:"gateway_enabled"`
	PublicLogs     bool     `json:"public_logs"`
	PublicSysinfo  bool     `json:"public_sysinfo"`
	// UpdateEnv belongs to the in-place call only.
	UpdateEnv bool `json:"update_env_vars,omitempty"`
}

type provisionReply struct {
	AppID       text `json:"app_id"`
	ComposeHash text `json:"compose_hash"`
	EnvKey      text `json:"app_env_encrypt_pubkey"`
	KMS         object[struct {
		EnvKey text `json:"encrypted_env_pubkey"`
	}] `json:"kms_info"`
}

// Provision implements platform.Platform. It has no effect on a CVM, so it is
// repeated like a read.
func (c *Client) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	if vmUUID == "" {
		return c.provisionApp(ctx, t.Name, t, "")
	}
	if err := checkTemplate(t); err != nil {
		return platform.Provisioned{}, err
	}
	path, err := cvmPath(vmUUID, "/compose_file/provision")
	if err != nil {
		return platform.Provisioned{}, err
	}
	body := compose(t)
	body.UpdateEnv = len(t.Env) > 0
	p, err := c.provision(ctx, call{doing: "provision a compose file for cvm " + vmUUID, method: http.MethodPost, path: path, body: body})
	if err == nil && p.EnvKey == nil && len(t.Env) > 0 {
		var inst platform.Instance
		if inst, err = c.Describe(ctx, vmUUID); err == nil {
			p.EnvKey = inst.EnvKey
		}
	}
	return p, err
}

// provisionApp provisions a new app whose first CVM is to be called name.
func (c *Client) provisionApp(ctx context.Context, name string, t platform.Template, node string) (platform.Provisioned, error) {
	if err := checkTemplate(t); err != nil {
		return platform.Provisioned{}, err
	}
	body := map[string]any{
		"name": name, "instance_type": t.InstanceType, "kms_type": "PHALA", "image": t.OSImage, "compose_file": compose(t),
	}
	if t.DiskGB > 0 {
		body["disk_size"] = t.DiskGB
	}
	if t.AppID != "" {
		body["custom_app_id"], body["nonce"] = bareID(t.AppID), t.AppNonce
	}
	if node != "" {
		body["teepod_id"] = nodeID(node)
	}
	p, err := c.provision(ctx, call{doing: "provision a new app for " + name, method: http.MethodPost, path: "/cvms/provision", body: body})
	switch {
	case err != nil:
		return p, err
	case p.AppID == "":
		return p, fmt.Errorf("provision a new app for %s: the platform gave no app id (on-chain key service?), which is not supported: %w", name, platform.ErrRefused)
	case t.AppID != "" && p.AppID != bareID(t.AppID):
		return p, fmt.Errorf("provision a new app for %s: asked for app id %s, the platform gave %s: %w", name, bareID(t.AppID), p.AppID, platform.ErrRefused)
	}
	return p, nil
}

func (c *Client) provision(ctx context.Context, r call) (platform.Provisioned, error) {
	var reply provisionReply
	r.into = &reply
	if err := c.read(ctx, r); err != nil {
		return platform.Provisioned{}, err
	}
	p := platform.Provisioned{AppID: bareID(string(reply.AppID)), ComposeHash: bareID(string(reply.ComposeHash)), EnvKey: envKey(string(reply.EnvKey))}
	if p.EnvKey == nil {
		p.EnvKey = envKey(string(reply.KMS.V.EnvKey))
	}
	if p.ComposeHash == "" {
		return p, fmt.Errorf("%s: the platform's reply has no compose hash: %w", r.doing, platform.ErrRefused)
	}
	return p, nil
}

// Create implements platform.Platform. A new app is provisioned once more under
// the CVM's own name, which refreshes the platform's memory of the content, and
// is created only if the hash is still the one that the caller decided on.
// What the platform has not said yet (often the vm uuid) is left empty.
func (c *Client) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	if !nameForm.MatchString(req.Name) {
		return platform.Instance{}, fmt.Errorf("create cvm %q: the name must be 5 to 63 letters, digits and '-', starting with a letter: %w", req.Name, platform.ErrRefused)
	}
	select {
	case c.creating <- struct{}{}:
		defer func() { <-c.creating }()
	case <-ctx.Done():
		return platform.Instance{}, fmt.Errorf("create cvm %s: not sent: %w: %w", req.Name, platform.ErrRefused, context.Cause(ctx))
	}
	r, err := c.createCall(ctx, req)
	switch {
	case err != nil && errors.Is(err, platform.ErrRefused):
		return platform.Instance{}, err
	case err != nil:
		// Whatever became of the preparation, no create was sent.
		return platform.Instance{}, fmt.Errorf("%w (nothing was created: %w)", err, platform.ErrRefused)
	}
	var row cvm
	r.into = &row
	pause := c.backoff
	for attempt := 1; ; attempt++ {
		err = c.write(ctx, r)
		// Another user of the workspace may be creating at the same time; the refusal is certain.
		if err == nil || attempt == createAttempts || !errors.Is(err, platform.ErrBusy) || !sleep(ctx, pause) {
			break
		}
		pause = min(2*pause, maxBackoff)
	}
	if err != nil {
		return platform.Instance{}, err
	}
	made := row.instance()
	if made.Name == "" {
		made.Name = req.Name
	}
	if made.AppID == "" {
		made.AppID = bareID(req.AppID)
		if made.AppID == "" {
			made.AppID = req.Provisioned.AppID
		}
	}
	return made, nil
}

func (c *Client) createCall(ctx context.Context, req platform.CreateRequest) (call, error) {
	r := call{doing: "create cvm " + req.Name, method: http.MethodPost}
	p := req.Provisioned
	body := map[string]any{}
	if req.AppID == "" {
		again, err := c.provisionApp(ctx, req.Name, req.Template, req.Node)
		if err != nil {
			return r, err
		}
		if again.ComposeHash != bareID(p.ComposeHash) {
			return r, fmt.Errorf("%s: the platform would now measure compose hash %s, not the decided %s: provision again: %w",
				r.doing, again.ComposeHash, bareID(p.ComposeHash), platform.ErrRefused)
		}
		p = again
		r.path = "/cvms"
		body["app_id"], body["compose_hash"] = p.AppID, p.ComposeHash
	} else {
		r.path = "/apps/" + url.PathEscape(bareID(req.AppID)) + "/instances"
		body["name"], body["compose_hash"] = req.Name, bareID(p.ComposeHash)
		if req.Node != "" {
			body["node_id"] = nodeID(req.Node)
		}
	}
	if len(req.Template.Env) > 0 {
		appID := bareID(req.AppID)
		if appID == "" {
			appID = p.AppID
		}
		sealed, err := c.sealEnv(ctx, appID, p.EnvKey, req.Template.Env)
		if err != nil {
			return r, fmt.Errorf("%s: %w", r.doing, err)
		}
		body["encrypted_env"] = sealed
		if req.AppID == "" {
			body["env_keys"] = dstacksdk.EnvNames(req.Template.Env)
		}
	}
	r.body = body
	return r, nil
}

func compose(t platform.Template) composeFile {
	return composeFile{
		Name: t.Name, Compose: t.Compose, AllowedEnvs: dstacksdk.EnvNames(t.Env), GatewayEnabled: true,
	}
}

func checkTemplate(t platform.Template) error {
	switch {
	case t.Name == "":
		return fmt.Errorf("template has no name: %w", platform.ErrRefused)
	case t.Compose == "":
		return fmt.Errorf("template has no compose text: %w", platform.ErrRefused)
	case len(t.Compose) > maxCompose:
		return fmt.Errorf("template's compose text has %d bytes, the platform takes at most %d: %w", len(t.Compose), maxCompose, platform.ErrRefused)
	}
	if err := dstacksdk.CheckEnv(t.Env); err != nil {
		return fmt.Errorf("template: %w: %w", err, platform.ErrRefused)
	}
	return nil
}
