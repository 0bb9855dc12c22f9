package attestsim

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cadre.dev/core/appcompose"
)

// agentOf is the version of the agent in an image, from 0.6 on; "" below: those images are names
// alone.
func agentOf(image string) string {
	text := image[strings.LastIndex(image, "-")+1:]
	if v, err := parseVersion(text); text != "" && err == nil && v.atLeast(0, 6, 0) {
		return text
	}
	return ""
}

// measureDocument emits the events that only an image 0.6 derives from app-compose.json.
func (g *Guest) measureDocument() error {
	said, err := appcompose.ReadMeasured(g.appCompose)
	if err != nil {
		return fmt.Errorf("app-compose.json: %w", err)
	}
	if said.EventLogVersion != 1 {
		return errors.New("app-compose.json: event_log_version: the simulated guest writes events of version 1 only")
	}
	for _, script := range said.InitScripts {
		g.emit("init-script-hash", script[:])
	}
	g.emit("gpu-policy-hash", said.GPUPolicy[:])
	return nil
}

// configure fixes MRCONFIGID as the VMM does before the guest starts: from 0.6 on with a document
// of version 3 where app-compose.json names the id of a key provider.
func (g *Guest) configure(providerID []byte) error {
	id := g.report.MRConfigID[:]
	id[0] = 1
	copy(id[1:], g.composeHash[:])
	var doc struct {
		ProviderID string          `json:"key_provider_id"`
		Manifest   json.RawMessage `json:"manifest_version"`
	}
	if err := json.Unmarshal(g.appCompose, &doc); err != nil || doc.ProviderID == "" || !g.version.atLeast(0, 6, 0) {
		return err
	}
	config := map[string]any{
		"version": 3, "app_id": hexOf(g.appID), "compose_hash": hexOf(g.composeHash[:]), "key_provider": "kms", "key_provider_id": hexOf(providerID),
	}
	if len(g.instanceID) > 0 {
		config["instance_id"] = hexOf(g.instanceID)
	}
	if string(doc.Manifest) == `"3"` {
		said, err := appcompose.ReadMeasured(g.appCompose)
		if err != nil {
			return err
		}
		scripts := []string{}
		for _, s := range said.InitScripts {
			scripts = append(scripts, hexOf(s[:]))
		}
		config["init_script_hashes"] = scripts
	}
	text, err := appcompose.Encode(config)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte("dstack-mr-config-v3:\x00"), text...))
	id[0] = 3
	copy(id[1:], sum[:])
	return nil
}
