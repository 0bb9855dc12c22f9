package appcompose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	compose "cadre.dev/core/appcompose"
)

// MaxBytes bounds compose plus scripts, as the real cloud does for the pre-launch script.
const MaxBytes = 200 << 10

// PlatformScript is the script that the server adds to a document without a pre-launch script. The
// real cloud adds a script of its own; this one does nothing.
const PlatformScript = `# The platform's own pre-launch script (local cloud).
true
`

// Harmless says whether a guest may skip script: the local cloud runs none.
func Harmless(script string) bool {
	return script == "" || script == PlatformScript || script == compose.PreLaunchScript
}

// Fields are the caller's fields of app-compose.json. The server keeps them unchanged, and fills in
// the missing ones. nil takes the server's default.
type Fields struct {
	ManifestVersion   *int           `json:"manifest_version"`
	Runner            string         `json:"runner"`
	Features          []string       `json:"features"`
	KMSEnabled        *bool          `json:"kms_enabled"`
	LocalKeyProvider  *bool          `json:"local_key_provider_enabled"`
	KeyProviderID     *string        `json:"key_provider_id"`
	TproxyEnabled     *bool          `json:"tproxy_enabled"`
	Name              string         `json:"name"`
	DockerComposeFile string         `json:"docker_compose_file"`
	PreLaunchScript   string         `json:"pre_launch_script"`
	InitScript        string         `json:"init_script"`
	AllowedEnvs       []string       `json:"allowed_envs"`
	GatewayEnabled    *bool          `json:"gateway_enabled"`
	PublicLogs        *bool          `json:"public_logs"`
	PublicSysinfo     *bool          `json:"public_sysinfo"`
	PublicTcbinfo     *bool          `json:"public_tcbinfo"`
	SecureTime        *bool          `json:"secure_time"`
	NoInstanceID      *bool          `json:"no_instance_id"`
	StorageFS         string         `json:"storage_fs"`
	KeyProvider       string         `json:"key_provider"`
	SwapSize          *int64         `json:"swap_size"`
	PortPolicy        map[string]any `json:"port_policy"`
}

// Build returns the bytes of app-compose.json for f.
func Build(f Fields) ([]byte, error) {
	if strings.TrimSpace(f.DockerComposeFile) == "" {
		return nil, errors.New("docker_compose_file: is empty; send the text of a compose file")
	}
	if n := len(f.DockerComposeFile) + len(f.PreLaunchScript) + len(f.InitScript); n > MaxBytes {
		return nil, fmt.Errorf("docker_compose_file: %d bytes with the scripts; the limit is %d", n, MaxBytes)
	}
	if f.KeyProvider != "" && f.KeyProvider != "kms" {
		return nil, fmt.Errorf("key_provider: %q is not offered here; leave it out or use \"kms\"", f.KeyProvider)
	}
	if f.NoInstanceID != nil && *f.NoInstanceID {
		return nil, errors.New("no_instance_id: is not offered here; leave it out")
	}
	if f.Runner != "" && f.Runner != "docker-compose" {
		return nil, fmt.Errorf("runner: %q is not offered here; leave it out or use \"docker-compose\"", f.Runner)
	}
	if f.ManifestVersion != nil && *f.ManifestVersion != 2 {
		return nil, fmt.Errorf("manifest_version: %d is not offered here; leave it out or use 2", *f.ManifestVersion)
	}
	if !orDefault(f.KMSEnabled, true) || orDefault(f.LocalKeyProvider, false) {
		return nil, errors.New("kms_enabled: apps here have their keys from the KMS; leave kms_enabled and local_key_provider_enabled out")
	}
	features := f.Features
	if features == nil {
		features = []string{"kms", "tproxy-net"}
	}
	doc := map[string]any{
		"manifest_version":           2,
		"runner":                     "docker-compose",
		"name":                       f.Name,
		"docker_compose_file":        f.DockerComposeFile,
		"features":                   features,
		"kms_enabled":                true,
		"local_key_provider_enabled": false,
		"allowed_envs":               NormalEnvs(f.AllowedEnvs),
		"gateway_enabled":            orDefault(f.GatewayEnabled, true),
		"tproxy_enabled":             orDefault(f.TproxyEnabled, orDefault(f.GatewayEnabled, true)),
		"public_logs":                orDefault(f.PublicLogs, true),
		"public_sysinfo":             orDefault(f.PublicSysinfo, true),
		"public_tcbinfo":             orDefault(f.PublicTcbinfo, true),
		"secure_time":                orDefault(f.SecureTime, false),
		"no_instance_id":             false,
		"storage_fs":                 "zfs",
	}
	if f.KeyProviderID != nil {
		doc["key_provider_id"] = *f.KeyProviderID
	}
	if f.KeyProvider != "" {
		doc["key_provider"] = f.KeyProvider
	}
	// A text that is given stays, as on the real cloud.
	doc["pre_launch_script"] = cmp.Or(f.PreLaunchScript, PlatformScript)
	if f.InitScript != "" {
		doc["init_script"] = f.InitScript
	}
	if f.StorageFS != "" {
		doc["storage_fs"] = f.StorageFS
	}
	if f.SwapSize != nil {
		doc["swap_size"] = *f.SwapSize
	}
	if f.PortPolicy != nil {
		doc["port_policy"] = f.PortPolicy
	}
	return compose.Encode(doc)
}

// Hash is the compose hash of raw: lower-case hex SHA-256 of the exact bytes.
func Hash(raw []byte) string {
	return compose.Hash(raw)
}

// Parsed has the fields of app-compose.json that the cloud and the guest read.
type Parsed struct {
	Name              string   `json:"name"`
	DockerComposeFile string   `json:"docker_compose_file"`
	PreLaunchScript   string   `json:"pre_launch_script"`
	InitScript        string   `json:"init_script"`
	AllowedEnvs       []string `json:"allowed_envs"`
	PublicLogs        bool     `json:"public_logs"`
	PublicSysinfo     bool     `json:"public_sysinfo"`
	PublicTcbinfo     bool     `json:"public_tcbinfo"`
	GatewayEnabled    bool     `json:"gateway_enabled"`
	SecureTime        bool     `json:"secure_time"`
	StorageFS         string   `json:"storage_fs"`
}

// Parse reads back the bytes that Build made.
func Parse(raw []byte) (Parsed, error) {
	var p Parsed
	if err := json.Unmarshal(raw, &p); err != nil {
		return Parsed{}, fmt.Errorf("parse app-compose.json: %w", err)
	}
	return p, nil
}

// WithAllowedEnvs returns raw with another allowed_envs; everything else stays.
func WithAllowedEnvs(raw []byte, keys []string) ([]byte, error) {
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("parse app-compose.json: %w", err)
	}
	doc["allowed_envs"] = NormalEnvs(keys)
	return compose.Encode(doc)
}

// NormalEnvs sorts keys and drops repeats; never nil, so that the JSON is [].
func NormalEnvs(keys []string) []string {
	out := append([]string{}, keys...)
	slices.Sort(out)
	return slices.Compact(out)
}

func orDefault(v *bool, def bool) bool {
	if v == nil {
		return def
	}
	return *v
}
