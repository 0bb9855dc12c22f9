package phala

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
	"cadre.dev/platform/internal/words"
)

// nameForm is the platform's rule for the name of a CVM.
var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{4,62}$`)

const createAttempts = 3

// maxCompose is the platform's bound on compose file and script together.
const maxCompose = 200 << 10

// document has the values of an app-compose.json that the driver needs.
type document struct {
	Name        string   `json:"name"`
	Compose     string   `json:"docker_compose_file"`
	Script      string   `json:"pre_launch_script"`
	AllowedEnvs []string `json:"allowed_envs"`
}

type provisionReply struct {
	AppID       text `json:"app_id"`
	ComposeHash text `json:"compose_hash"`
	// AppCompose is the raw file, under the name that it has in tcb_info. No server is known to
	// show it here yet; without it the sent document must be the measured one.
	AppCompose text `json:"app_compose"`
	EnvKey     text `json:"app_env_encrypt_pubkey"`
	// KMSID names the key service in a reply for a new app; for an existing app kms_info has it.
	KMSID text `json:"kms_id"`
	KMS   object[struct {
		ID     text `json:"id"`
		EnvKey text `json:"encrypted_env_pubkey"`
	}] `json:"kms_info"`
}

// Provision implements platform.Platform. It has no effect on a CVM, so it is
// repeated like a read.
func (c *Client) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	doc, err := checkTemplate(t)
	if err != nil {
		return platform.Provisioned{}, err
	}
	if vmUUID == "" {
		return c.provisionApp(ctx, doc.Name, t, "")
	}
	path, err := cvmPath(vmUUID, "/compose_file/provision")
	if err != nil {
		return platform.Provisioned{}, err
	}
	body, err := composeFile(t)
	if err != nil {
		return platform.Provisioned{}, err
	}
	if len(t.Env) > 0 {
		body["update_env_vars"] = true // of the call, not of the document
	}
	p, err := c.provision(ctx, t, call{doing: "provision a compose file for cvm " + vmUUID, method: http.MethodPost, path: path, body: body})
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
	file, err := composeFile(t)
	if err != nil {
		return platform.Provisioned{}, err
	}
	image, err := c.imageSlug(ctx, t.OSImage)
	if err != nil {
		return platform.Provisioned{}, err
	}
	// The server publishes a CVM that does not say listed.
	body := map[string]any{
		"name": name, "instance_type": t.InstanceType, "kms": "PHALA", "image": image, "compose_file": file, "listed": false,
	}
	if t.DiskGB > 0 {
		body["disk_size"] = t.DiskGB
	}
	if t.AppID != "" {
		// A number: the server's schema has no text here, and refuses a nonce without app_id.
		nonce, err := strconv.ParseUint(t.AppNonce, 10, 64)
		if err != nil {
			return platform.Provisioned{}, fmt.Errorf("template: the nonce %.40q of app id %s is not a whole number: allot an app id again: %w", t.AppNonce, words.ID(t.AppID), platform.ErrRefused)
		}
		body["app_id"], body["nonce"] = words.ID(t.AppID), nonce
	}
	if node != "" {
		body["teepod_id"] = nodeID(node) // node_id is the field of POST /apps/{app}/instances alone
	}
	p, err := c.provision(ctx, t, call{doing: "provision a new app for " + name, method: http.MethodPost, path: "/cvms/provision", body: body})
	switch {
	case err != nil:
		return p, err
	case p.AppID == "":
		return p, fmt.Errorf("provision a new app for %s: the platform gave no app id, as for a key service on a chain: %w: %w", name, platform.ErrOnChain, platform.ErrRefused)
	case t.AppID != "" && p.AppID != words.ID(t.AppID):
		return p, fmt.Errorf("provision a new app for %s: asked for app id %s, the platform gave %s: %w", name, words.ID(t.AppID), p.AppID, platform.ErrRefused)
	}
	return p, nil
}

func (c *Client) provision(ctx context.Context, t platform.Template, r call) (platform.Provisioned, error) {
	var reply provisionReply
	r.into = &reply
	if err := c.read(ctx, r); err != nil {
		return platform.Provisioned{}, err
	}
	p := platform.Provisioned{
		AppID: words.ID(string(reply.AppID)), ComposeHash: words.ID(string(reply.ComposeHash)), EnvKey: envKey(string(reply.EnvKey)),
		KMS: string(cmp.Or(reply.KMSID, reply.KMS.V.ID)),
	}
	if own := string(reply.AppCompose); own != "" && own != string(t.AppCompose) {
		p.AppCompose = []byte(own)
	}
	if p.EnvKey == nil {
		p.EnvKey = envKey(string(reply.KMS.V.EnvKey))
	}
	if p.ComposeHash == "" {
		return p, fmt.Errorf("%s: the platform's reply has no compose hash: %w", r.doing, platform.ErrRefused)
	}
	if err := p.Check(t); err != nil {
		return platform.Provisioned{}, fmt.Errorf("%s: %w: %w", r.doing, err, platform.ErrRefused)
	}
	return p, nil
}

// Create implements platform.Platform. A new app is provisioned once more under the CVM's own name,
// which refreshes the platform's memory of the content. Create sends the creation only if the hash
// still equals the caller's accepted hash. Fields that the platform has not reported yet (often the
// vm uuid) are left empty.
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
		// The preparation failed, and no create was sent.
		return platform.Instance{}, fmt.Errorf("%w (nothing was created: %w)", err, platform.ErrRefused)
	}
	var row cvm
	r.into = &row
	pause := c.backoff
	for attempt := 1; ; attempt++ {
		err = c.write(ctx, r)
		// Another user of the workspace may be creating at the same time; the refusal is certain.
		if err == nil || attempt == createAttempts || !errors.Is(err, platform.ErrBusy) || !httpcall.Sleep(ctx, pause) {
			break
		}
		pause = min(2*pause, maxBackoff)
	}
	if err != nil {
		return platform.Instance{}, err
	}
	made := row.instance()
	switch made.Name {
	case "":
		made.Name = req.Name
	case req.Name:
	default:
		// A create of an app id and hash that a CVM has is answered with that CVM.
		return platform.Instance{}, fmt.Errorf("create cvm %s: the platform answered with cvm %q, which has this app id and compose hash: nothing was created: %w",
			req.Name, words.OneLine(made.Name, 80), platform.ErrRefused)
	}
	if made.AppID == "" {
		made.AppID = words.ID(req.AppID)
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
	if _, err := checkTemplate(req.Template); err != nil {
		return r, fmt.Errorf("%s: %w", r.doing, err)
	}
	if req.AppID == "" {
		again, err := c.provisionApp(ctx, req.Name, req.Template, req.Node)
		if err != nil {
			return r, err
		}
		if again.ComposeHash != words.ID(p.ComposeHash) {
			return r, fmt.Errorf("%s: the platform would now measure compose hash %s, not the decided %s: provision again: %w",
				r.doing, again.ComposeHash, words.ID(p.ComposeHash), platform.ErrRefused)
		}
		p = again
		r.path = "/cvms"
		body["app_id"], body["compose_hash"] = p.AppID, p.ComposeHash
	} else {
		r.path = "/apps/" + url.PathEscape(words.ID(req.AppID)) + "/instances"
		body["name"], body["compose_hash"] = req.Name, words.ID(p.ComposeHash)
		if req.Node != "" {
			body["node_id"] = nodeID(req.Node)
		}
	}
	if len(req.Template.Env) > 0 {
		appID := words.ID(req.AppID)
		if appID == "" {
			appID = p.AppID
		}
		sealed, err := c.sealEnv(ctx, p.KMS, appID, p.EnvKey, req.Template.Env)
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

// composeFile is the document as the object that the API takes: every key of it, so
// that the server has none to choose.
func composeFile(t platform.Template) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(t.AppCompose))
	dec.UseNumber()
	var file map[string]any
	if err := dec.Decode(&file); err != nil {
		return nil, fmt.Errorf("template's app-compose.json: %w: %w", err, platform.ErrRefused)
	}
	return file, nil
}

func checkTemplate(t platform.Template) (document, error) {
	var doc document
	refused := func(format string, args ...any) (document, error) {
		return doc, fmt.Errorf("template: %w: %w", fmt.Errorf(format, args...), platform.ErrRefused)
	}
	if err := json.Unmarshal(t.AppCompose, &doc); err != nil {
		return refused("its app-compose.json: %w", err)
	}
	switch n := len(doc.Compose) + len(doc.Script); {
	case doc.Name == "":
		return refused("its app-compose.json has no name")
	case doc.Compose == "":
		return refused("its app-compose.json has no docker_compose_file")
	case n > maxCompose:
		return refused("compose text and script have %d bytes, the platform takes at most %d", n, maxCompose)
	}
	if err := t.CheckEnv(doc.AllowedEnvs); err != nil {
		return refused("%w", err)
	}
	return doc, nil
}
