package appcompose

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fields are the author's choices in an app-compose.json. The zero values of pointers and of the
// last group are left out of the document.
type Fields struct {
	Name              string
	DockerComposeFile string
	// AllowedEnvs keep their order.
	AllowedEnvs []string
	// KeyProvider is none, kms, local or tpm.
	KeyProvider                                           string
	GatewayEnabled, PublicLogs, PublicSysinfo, SecureTime bool

	KeyProviderID   string
	PreLaunchScript string
	InitScript      string
	PublicTcbinfo   *bool
	NoInstanceID    *bool
	StorageFS       string
	SwapSize        int64
}

// Providers are the values of key_provider.
var Providers = []string{"none", "kms", "local", "tpm"}

// Build writes the document.
func Build(f Fields) ([]byte, error) {
	switch {
	case strings.TrimSpace(f.DockerComposeFile) == "":
		return nil, errors.New("docker_compose_file: is empty; give the text of a compose file")
	case !slices.Contains(Providers, f.KeyProvider):
		return nil, fmt.Errorf("key_provider: %q is unknown; use one of %s", f.KeyProvider, strings.Join(Providers, ", "))
	case strings.Trim(f.KeyProviderID, "0123456789abcdef") != "" || len(f.KeyProviderID)%2 != 0:
		return nil, fmt.Errorf("key_provider_id: %q is not lower-case hex", f.KeyProviderID)
	case f.StorageFS != "" && f.StorageFS != "zfs" && f.StorageFS != "ext4":
		return nil, fmt.Errorf("storage_fs: %q is unknown; use zfs or ext4", f.StorageFS)
	}
	doc := map[string]any{
		"manifest_version": 2, "runner": "docker-compose",
		"name": f.Name, "docker_compose_file": f.DockerComposeFile, "allowed_envs": append([]string{}, f.AllowedEnvs...),
		"key_provider": f.KeyProvider, "kms_enabled": f.KeyProvider == "kms",
		"gateway_enabled": f.GatewayEnabled, "public_logs": f.PublicLogs, "public_sysinfo": f.PublicSysinfo, "secure_time": f.SecureTime,
	}
	for key, value := range map[string]string{"key_provider_id": f.KeyProviderID, "pre_launch_script": f.PreLaunchScript, "init_script": f.InitScript, "storage_fs": f.StorageFS} {
		if value != "" {
			doc[key] = value
		}
	}
	for key, value := range map[string]*bool{"public_tcbinfo": f.PublicTcbinfo, "no_instance_id": f.NoInstanceID} {
		if value != nil {
			doc[key] = *value
		}
	}
	if f.SwapSize != 0 {
		doc["swap_size"] = f.SwapSize
	}
	raw, err := Encode(doc)
	if err == nil && len(raw) > MaxSize {
		return nil, fmt.Errorf("app-compose.json has %d bytes, dstack takes at most %d", len(raw), MaxSize)
	}
	return raw, err
}

// profiles are, by platform, the keys of a rendered document that not every platform has. Phala
// Cloud's servers add these three to a document without them, so that a server which keeps the sent
// document measures its bytes. A host's dstack-vmm stores the sent bytes and adds nothing.
var profiles = map[string]map[string]any{
	"phala": {"features": []string{"kms", "tproxy-net"}, "tproxy_enabled": true, "pre_launch_script": PreLaunchScript},
	"vmm":   {},
}

// Render writes the document of a program that Cadre runs, a Revision or the coordinators, for Phala
// Cloud. envs are the names that the encrypted environment sets. Render replaces MarkPlace in compose
// with the text's mark.
func Render(name, compose string, envs []string) ([]byte, error) {
	return Rules{}.Render(name, compose, envs)
}

// Render is the package's Render for a platform, and for a cluster whose trust file gives these rules.
func (r Rules) Render(name, compose string, envs []string) ([]byte, error) {
	if strings.TrimSpace(compose) == "" {
		return nil, errors.New("docker_compose_file: is empty; give the text of a compose file")
	}
	profile, known := profiles[cmp.Or(r.Platform, "phala")]
	if !known {
		return nil, fmt.Errorf("platform %q is not known: use one of %s", r.Platform, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
	}
	names := append([]string{}, envs...)
	slices.Sort(names)
	doc := map[string]any{
		"manifest_version": 2, "runner": "docker-compose", "name": name, "docker_compose_file": Marked(compose),
		"allowed_envs": slices.Compact(names),
		"kms_enabled":  true, "local_key_provider_enabled": false, "no_instance_id": false, "gateway_enabled": true,
		"public_logs": false, "public_sysinfo": false, "public_tcbinfo": true,
		"secure_time": !r.SecureTimeOff, "storage_fs": "zfs", "init_script": InitScript,
	}
	maps.Copy(doc, profile)
	raw, err := Encode(doc)
	if err == nil && len(raw) > MaxSize {
		return nil, fmt.Errorf("app-compose.json has %d bytes, dstack takes at most %d", len(raw), MaxSize)
	}
	return raw, err
}
