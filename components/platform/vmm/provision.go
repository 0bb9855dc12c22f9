package vmm

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// maxCompose bounds an app-compose.json: a guest gets all its files on one small disk.
const maxCompose = 1 << 20

// maxTexts bounds the remembered documents.
const maxTexts = 512

// texts remembers provisioned documents, since Update names one by its hash and a VMM remembers none.
type texts struct {
	byHash map[string]string
	order  []string // oldest first
}

func (t *texts) put(hash, text string) {
	if t.byHash == nil {
		t.byHash = map[string]string{}
	}
	if _, ok := t.byHash[hash]; ok {
		t.order = slices.DeleteFunc(t.order, func(h string) bool { return h == hash })
	} else if len(t.order) == maxTexts {
		delete(t.byHash, t.order[0])
		t.order = t.order[1:]
	}
	t.byHash[hash] = text
	t.order = append(t.order, hash)
}

// document has the values of an app-compose.json that the driver needs.
type document struct {
	Name        string   `json:"name"`
	Compose     string   `json:"docker_compose_file"`
	AllowedEnvs []string `json:"allowed_envs"`
	KeyProvider string   `json:"key_provider"`
	KMSEnabled  bool     `json:"kms_enabled"`
}

// hasKMS reports an app whose keys, and so its id, come from a key service.
func (d document) hasKMS() bool {
	return d.KeyProvider == "kms" || d.KeyProvider == "" && d.KMSEnabled
}

func checkTemplate(t platform.Template) (document, error) {
	var doc document
	refused := func(format string, args ...any) (document, error) {
		return doc, fmt.Errorf("template: %w: %w", fmt.Errorf(format, args...), platform.ErrRefused)
	}
	switch n := len(t.AppCompose); {
	case n > maxCompose:
		return refused("its app-compose.json has %d bytes, at most %d", n, maxCompose)
	case !utf8.Valid(t.AppCompose):
		return refused("its app-compose.json is not UTF-8: the host would measure other bytes")
	}
	if err := json.Unmarshal(t.AppCompose, &doc); err != nil {
		return refused("its app-compose.json: %w", err)
	}
	switch {
	case doc.Name == "":
		return refused("its app-compose.json has no name")
	case doc.Compose == "":
		return refused("its app-compose.json has no docker_compose_file")
	case t.AppID != "" && !hex40Form.MatchString(words.ID(t.AppID)):
		return refused("app id %.64q is not 40 hex digits", t.AppID)
	}
	if err := t.CheckEnv(doc.AllowedEnvs); err != nil {
		return refused("%w", err)
	}
	return doc, nil
}

// Provision implements platform.Platform. The hash is computed here: a VMM writes the sent bytes and
// no others. A new app has the id of the template, or the first 20 bytes of the hash, as
// a VMM without a given id has it. For a CVM that is there, its host must have the OS image.
func (c *Client) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	if _, err := checkTemplate(t); err != nil {
		return platform.Provisioned{}, err
	}
	hash := hashOf(string(t.AppCompose))
	p := platform.Provisioned{AppID: words.ID(t.AppID), ComposeHash: hash}
	if p.AppID == "" {
		p.AppID = hash[:2*appIDSize]
	}
	hosts := c.hosts
	if vmUUID != "" {
		h, vm, err := c.locate(ctx, "provision a compose file for cvm "+vmUUID, vmUUID)
		if err != nil {
			return platform.Provisioned{}, err
		}
		hosts, p.AppID = []*host{h}, words.ID(vm.AppID)
		// Here, since the caller drains and stops the CVM before it changes it.
		if cfg := vm.Configuration; t.OSImage != "" && (cfg == nil || !sameImage(t.OSImage, cfg.Image)) {
			if _, err := h.image(ctx, t.OSImage); err != nil {
				return platform.Provisioned{}, fmt.Errorf("cvm %s: %w", vmUUID, err)
			}
		}
	}
	if len(t.Env) > 0 {
		var err error
		if p.EnvKey, err = c.envKey(ctx, hosts, p.AppID); err != nil {
			return platform.Provisioned{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts.put(hash, string(t.AppCompose))
	return p, nil
}

// text is a provisioned document.
func (c *Client) text(hash string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.texts.byHash[hash]
	return text, ok
}

// envKey is the app's key of the first host that answers.
func (c *Client) envKey(ctx context.Context, hosts []*host, appID string) ([]byte, error) {
	var last error
	for _, h := range hosts {
		key, _, err := h.envKey(ctx, appID)
		if err == nil {
			return key, nil
		}
		last = err
	}
	return nil, last
}

// envKey asks the host's key service for the app's env key and the statement about it.
func (h *host) envKey(ctx context.Context, appID string) ([]byte, dstacksdk.EnvKeyProof, error) {
	var reply struct {
		PublicKey   string `json:"public_key"`
		Signature   string `json:"signature"`
		SignatureV1 string `json:"signature_v1"`
		Timestamp   uint64 `json:"timestamp"`
	}
	doing := "read the env key of app " + appID
	if err := h.read(ctx, call{doing: doing, method: "GetAppEnvEncryptPubKey", body: map[string]string{"app_id": appID}, into: &reply}); err != nil {
		return nil, dstacksdk.EnvKeyProof{}, err
	}
	key, err := hex.DecodeString(strings.TrimPrefix(reply.PublicKey, "0x"))
	if err != nil {
		return nil, dstacksdk.EnvKeyProof{}, fmt.Errorf("node %s: %s: public_key is not hex", h.Name, doing)
	}
	proof, err := dstacksdk.ReadEnvKeyProof(reply.Signature, reply.SignatureV1, reply.Timestamp)
	if err != nil {
		return nil, dstacksdk.EnvKeyProof{}, fmt.Errorf("node %s: %s: %w", h.Name, doing, err)
	}
	if len(key) != 32 {
		return nil, dstacksdk.EnvKeyProof{}, fmt.Errorf("node %s: %s: the key has %d bytes, want 32", h.Name, doing, len(key))
	}
	return key, proof, nil
}

// sealEnv encrypts env for the guests of the app on h. provisioned is the key that Provision gave, or
// nil. Each host may have its own key service, so the key is that of the CVM's host, and the
// service's signature over it is checked. Nothing was sent when it fails.
func (c *Client) sealEnv(ctx context.Context, h *host, appID string, provisioned []byte, env map[string]string) (string, error) {
	refused := func(err error) (string, error) { return "", fmt.Errorf("%w: %w", err, platform.ErrRefused) }
	if err := dstacksdk.CheckEnv(env); err != nil {
		return refused(err)
	}
	key, proof, err := h.envKey(ctx, appID)
	if err != nil {
		if said(err) {
			return refused(err)
		}
		return "", fmt.Errorf("%w (nothing was sent: %w: %w)", err, platform.ErrBusy, platform.ErrRefused)
	}
	if len(provisioned) > 0 && !bytes.Equal(provisioned, key) {
		return refused(fmt.Errorf("node %s has another env key for app %s than the one of Provision: its hosts must share one key service", h.Name, appID))
	}
	if c.keyService != nil {
		service, err := c.keyService(ctx)
		if err != nil {
			return refused(fmt.Errorf("env key of app %s: read who may sign it: %w", appID, err))
		}
		if err := proof.Verify(service, key, appID); err != nil {
			return refused(fmt.Errorf("node %s: env key %x of app %s: %w: nothing was sealed for it", h.Name, key, appID, err))
		}
	}
	sealed, err := dstacksdk.SealEnv(key, env)
	if err != nil {
		return refused(err)
	}
	return sealed, nil
}
