package vmmapi

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cadre.dev/local/internal/appcompose"
	"cadre.dev/local/internal/cloud"
)

// agentPort is where the guest's dashboard is behind the gateway.
const agentPort = 8090

const (
	maxVMs      = 1000
	maxVCPU     = 20
	maxMemoryMB = 100_000
)

func (e *endpoint) newer() bool { return !strings.HasPrefix(e.cfg.Cloud.VMMVersion(), "0.5.") }

func (e *endpoint) status(request statusRequest) (any, error) {
	found := slices.DeleteFunc(e.cfg.Cloud.VMs(e.host), func(i cloud.VMInfo) bool {
		if len(request.IDs) > 0 && !slices.Contains(request.IDs, i.VMUUID) {
			return true
		}
		return request.Keyword != "" && !slices.ContainsFunc([]string{i.Name, i.VMUUID, i.AppID, i.OSImage}, func(text string) bool {
			return strings.Contains(text, request.Keyword)
		})
	})
	vms := []any{}
	for _, i := range page(found, request.Page, request.PageSize) {
		vms = append(vms, e.view(i, request.Brief))
	}
	return map[string]any{"vms": vms, "port_mapping_enabled": false, "total": len(found)}, nil
}

func (e *endpoint) getInfo(request vmID) (any, error) {
	info, found := e.cfg.Cloud.VMInfo(e.host, request.ID)
	if !found {
		return map[string]any{"found": false, "info": nil}, nil
	}
	return map[string]any{"found": true, "info": e.view(info, false)}, nil
}

func (e *endpoint) createVM(request vmConfiguration) (any, error) {
	if err := checkLabel(request.Name); err != nil {
		return nil, err
	}
	if len(request.Ports) > 0 {
		return nil, errors.New("Port mapping is disabled") //nolint:staticcheck // the text of the real server
	}
	if err := checkGPUs(request.GPUs); err != nil {
		return nil, err
	}
	networks, err := e.networks(request)
	if err != nil {
		return nil, err
	}
	n := cloud.NewVM{
		Name: request.Name, Image: request.Image, DiskGB: request.DiskSize, EncryptedEnv: hex.EncodeToString(request.EncryptedEnv), Stopped: request.Stopped,
		VM: cloud.VM{
			ComposeFile: request.ComposeFile, UserConfig: request.UserConfig, VCPU: request.VCPU, MemoryMB: request.Memory,
			HugePages: request.HugePages, PinNUMA: request.PinNUMA, KMSURLs: request.KMSURLs, GatewayURLs: request.GatewayURLs,
			NoTEE: request.NoTEE, Networks: networks,
		},
	}
	if request.AppID != nil {
		n.AppID = *request.AppID
	}
	id, err := e.cfg.Cloud.CreateVM(e.host, n)
	return vmID{id}, err
}

// networks are the interfaces of a new VM; none is the host's default.
func (e *endpoint) networks(request vmConfiguration) ([]cloud.VMNetwork, error) {
	if e.newer() && len(request.Networks) > 0 {
		return request.Networks, checkNetworks(request.Networks)
	}
	one := request.Networking
	if one == nil || one.Mode == "" {
		return nil, nil
	}
	if err := checkNetworks([]cloud.VMNetwork{*one}); err != nil {
		if e.newer() {
			return nil, err
		}
		return nil, nil // the older server takes its default
	}
	return []cloud.VMNetwork{*one}, nil
}

func checkNetworks(networks []cloud.VMNetwork) error {
	for _, n := range networks {
		switch {
		case n.Mode == "":
			return errors.New("networking mode is required")
		case n.Mode != "user" && n.Mode != "bridge":
			return fmt.Errorf("unsupported networking mode '%s'", n.Mode)
		case n.Mode == "user" && n.BridgeName != "":
			return errors.New("bridge_name is only valid for bridge networking mode")
		}
	}
	return nil
}

func (e *endpoint) updateVM(request updateRequest) (any, error) {
	u := cloud.VMUpdate{
		ComposeFile: request.ComposeFile, EncryptedEnv: hex.EncodeToString(request.EncryptedEnv), UserConfig: request.UserConfig,
		VCPU: request.VCPU, MemoryMB: request.Memory, DiskGB: request.DiskSize, Image: request.Image, NoTEE: request.NoTEE,
	}
	// The files are written before the rest is read.
	late := checkGPUs(request.GPUs)
	if request.GPUs != nil {
		u.AttachMode = &request.GPUs.AttachMode
	}
	if request.UpdatePorts {
		late = errors.Join(late, checkPorts(request.Ports))
		u.Ports = &request.Ports
	}
	if request.UpdateKMSURLs {
		u.KMSURLs = &request.KMSURLs
	}
	if request.UpdateGatewayURLs {
		u.GatewayURLs = &request.GatewayURLs
	}
	if e.newer() && request.UpdateNetworking {
		late = errors.Join(late, checkNetworks(request.Networks))
		u.Networks = &request.Networks
	}
	if late != nil {
		files := cloud.VMUpdate{ComposeFile: u.ComposeFile, EncryptedEnv: u.EncryptedEnv, UserConfig: u.UserConfig}
		if _, err := e.cfg.Cloud.UpdateVM(e.host, request.ID, files); err != nil {
			return nil, err
		}
		return nil, late
	}
	appID, err := e.cfg.Cloud.UpdateVM(e.host, request.ID, u)
	return vmID{appID}, err
}

func (e *endpoint) resizeVM(request struct {
	ID       string  `json:"id"`
	VCPU     *uint32 `json:"vcpu"`
	Memory   *uint32 `json:"memory"`
	DiskSize *uint32 `json:"disk_size"`
	Image    *string `json:"image"`
}) (any, error) {
	return nil, e.cfg.Cloud.ResizeVM(e.host, request.ID, cloud.VMUpdate{VCPU: request.VCPU, MemoryMB: request.Memory, DiskGB: request.DiskSize, Image: request.Image})
}

// checkLabel refuses names that could be more than names.
func checkLabel(name string) error {
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("-_. @~!$^()", r) {
			return fmt.Errorf("Invalid name: %s", name) //nolint:staticcheck // the text of the real server
		}
	}
	return nil
}

// checkGPUs refuses GPUs, which no host has.
func checkGPUs(g *gpuConfig) error {
	switch {
	case g == nil:
		return nil
	case g.AttachMode == "all" || len(g.GPUs) > 0:
		return errors.New("GPU is not enabled")
	case g.AttachMode != "listed":
		return fmt.Errorf("Invalid GPU attach mode: %s", g.AttachMode) //nolint:staticcheck // the text of the real server
	}
	return nil
}

func checkPorts(ports []cloud.VMPort) error {
	for _, p := range ports {
		if _, err := netip.ParseAddr(p.HostAddress); err != nil {
			return fmt.Errorf("Invalid host address: %w", err) //nolint:staticcheck // the text of the real server
		}
		if p.Protocol != "tcp" && p.Protocol != "udp" {
			return fmt.Errorf("Invalid protocol: Invalid protocol: %s", p.Protocol) //nolint:staticcheck // the text of the real server
		}
		if p.HostPort > 65535 || p.VMPort > 65535 {
			return errors.New("Invalid host port") //nolint:staticcheck // the text of the real server
		}
	}
	return nil
}

func (e *endpoint) composeHash(request vmConfiguration) (any, error) {
	if err := checkLabel(request.Name); err != nil {
		return nil, err
	}
	if err := e.cfg.Cloud.CheckDocument(request.ComposeFile); err != nil {
		return nil, fmt.Errorf("Invalid compose file: %w", err) //nolint:staticcheck // the text of the real server
	}
	return map[string]any{"hash": appcompose.Hash([]byte(request.ComposeFile))}, nil
}

func (e *endpoint) envKey(request struct {
	AppID hexBytes `json:"app_id"`
}) (any, error) {
	id := hex.EncodeToString(request.AppID)
	key, err := e.cfg.EnvKey(id)
	if err != nil {
		return nil, err
	}
	now := uint64(time.Now().Unix())
	out := map[string]any{"public_key": hexBytes(key.PublicKey().Bytes()), "signature": "", "timestamp": now, "signature_v1": ""}
	if e.cfg.SignEnvKey != nil {
		legacy, v1, err := e.cfg.SignEnvKey(id, now)
		if err != nil {
			return nil, err
		}
		out["signature"], out["signature_v1"] = hexBytes(legacy), hexBytes(v1)
	}
	return out, nil
}

func (e *endpoint) meta() (any, error) {
	gateway := "https://gateway." + e.cfg.Domain
	const kms = "https://kms.local.invalid"
	out := map[string]any{
		"kms":       map[string]any{"url": kms, "urls": []string{kms}},
		"gateway":   map[string]any{"url": gateway, "urls": []string{gateway}, "base_domain": e.cfg.Domain, "port": 443, "agent_port": agentPort},
		"resources": map[string]any{"max_cvm_number": maxVMs, "max_allocable_vcpu": maxVCPU, "max_allocable_memory_in_mb": maxMemoryMB},
	}
	if e.newer() {
		out["networking"] = map[string]any{"supported_modes": []string{"user", "bridge"}, "default_mode": "user", "default_bridge": ""}
	}
	return out, nil
}

func (e *endpoint) version() (any, error) {
	return map[string]any{"version": e.cfg.Cloud.VMMVersion(), "rev": "local"}, nil
}

func (e *endpoint) images() (any, error) {
	images := []any{}
	for _, name := range e.cfg.Images {
		version := imageVersion(name)
		about, err := json.Marshal(map[string]any{"version": version, "is_dev": false, "shared_ro": true})
		if err != nil {
			return nil, err
		}
		images = append(images, map[string]any{"name": name, "description": string(about), "version": version, "is_dev": false})
	}
	return map[string]any{"images": images}, nil
}

func imageVersion(image string) string { return strings.TrimPrefix(image, "dstack-") }

func (e *endpoint) gpus() (any, error) {
	return map[string]any{"gpus": []any{}, "allow_attach_all": true}, nil
}

func (e *endpoint) reload() (any, error) {
	return map[string]any{"loaded": 0, "updated": e.cfg.Cloud.ReloadVMs(e.host), "removed": 0}, nil
}

// elapsed is the time since then in the real server's notation, such as "1h 2m 3s".
func elapsed(then time.Time) string {
	left := int64(max(0, time.Since(then)) / time.Second)
	var parts []string
	for _, u := range []struct {
		name string
		size int64
	}{{"days", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		n := left / u.size
		left %= u.size
		switch {
		case n == 1 && u.name == "days":
			parts = append(parts, "1day")
		case n > 0:
			parts = append(parts, fmt.Sprint(n)+u.name)
		}
	}
	if len(parts) == 0 {
		return "0s"
	}
	return strings.Join(parts, " ")
}
