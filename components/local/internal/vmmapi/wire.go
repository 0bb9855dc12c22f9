package vmmapi

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"cadre.dev/local/internal/cloud"
)

// hexBytes are bytes, hex in JSON.
type hexBytes []byte

// UnmarshalJSON reads hex.
func (b *hexBytes) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errors.New("invalid type: expected a hex string")
	}
	out, err := hex.DecodeString(text)
	if err != nil {
		return fmt.Errorf("invalid hex string: %w", err)
	}
	*b = out
	return nil
}

// MarshalJSON writes lower-case hex.
func (b hexBytes) MarshalJSON() ([]byte, error) { return json.Marshal(hex.EncodeToString(b)) }

type vmID struct {
	ID string `json:"id"`
}

type gpuConfig struct {
	GPUs []struct {
		Slot string `json:"slot"`
	} `json:"gpus"`
	AttachMode string `json:"attach_mode"`
}

// vmConfiguration is the request of CreateVm and a part of a VM's description.
type vmConfiguration struct {
	Name         string            `json:"name"`
	Image        string            `json:"image"`
	ComposeFile  string            `json:"compose_file"`
	VCPU         uint32            `json:"vcpu"`
	Memory       uint32            `json:"memory"`
	DiskSize     uint32            `json:"disk_size"`
	Ports        []cloud.VMPort    `json:"ports"`
	EncryptedEnv hexBytes          `json:"encrypted_env"`
	AppID        *string           `json:"app_id"`
	UserConfig   string            `json:"user_config"`
	HugePages    bool              `json:"hugepages"`
	PinNUMA      bool              `json:"pin_numa"`
	GPUs         *gpuConfig        `json:"gpus"`
	KMSURLs      []string          `json:"kms_urls"`
	GatewayURLs  []string          `json:"gateway_urls"`
	Stopped      bool              `json:"stopped"`
	NoTEE        bool              `json:"no_tee"`
	Networking   *cloud.VMNetwork  `json:"networking"`
	Networks     []cloud.VMNetwork `json:"networks"`
}

type updateRequest struct {
	ID                string            `json:"id"`
	ComposeFile       string            `json:"compose_file"`
	EncryptedEnv      hexBytes          `json:"encrypted_env"`
	UserConfig        string            `json:"user_config"`
	UpdatePorts       bool              `json:"update_ports"`
	Ports             []cloud.VMPort    `json:"ports"`
	UpdateKMSURLs     bool              `json:"update_kms_urls"`
	KMSURLs           []string          `json:"kms_urls"`
	UpdateGatewayURLs bool              `json:"update_gateway_urls"`
	GatewayURLs       []string          `json:"gateway_urls"`
	GPUs              *gpuConfig        `json:"gpus"`
	VCPU              *uint32           `json:"vcpu"`
	Memory            *uint32           `json:"memory"`
	DiskSize          *uint32           `json:"disk_size"`
	Image             *string           `json:"image"`
	NoTEE             *bool             `json:"no_tee"`
	UpdateNetworking  bool              `json:"update_networking"`
	Networks          []cloud.VMNetwork `json:"networks"`
}

type statusRequest struct {
	IDs      []string `json:"ids"`
	Brief    bool     `json:"brief"`
	Keyword  string   `json:"keyword"`
	Page     uint32   `json:"page"`
	PageSize uint32   `json:"page_size"`
}

// decode reads a request as the real server does: unknown keys are dropped, a value of another type
// is refused, and null stands only for an optional field. An empty body is an empty request.
func decode(body []byte, into any) error {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	t := reflect.TypeOf(into).Elem()
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("json")
		if t.Field(i).Type.Kind() != reflect.Pointer && string(fields[name]) == "null" {
			return fmt.Errorf("invalid type: null, expected a value of field `%s`", name)
		}
	}
	return nil
}

// list is a slice that is [] in JSON, never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// view is the description of a VM. brief leaves out the configuration.
func (e *endpoint) view(i cloud.VMInfo, brief bool) map[string]any {
	uptime, exited := "never", "never"
	if !i.VM.BeganAt.IsZero() { // the real server counts on after the end
		uptime = elapsed(i.VM.BeganAt)
	}
	if !i.VM.StoppedAt.IsZero() {
		exited = elapsed(i.VM.StoppedAt)
	}
	out := map[string]any{
		"id": i.VMUUID, "name": i.Name, "status": i.State(), "uptime": uptime, "app_url": nil, "app_id": i.AppID, "instance_id": orNil(i.InstanceID),
		"configuration": nil, "exited_at": exited, "boot_progress": i.BootProgress, "boot_error": i.BootError,
		"shutdown_progress": i.VM.ShutdownProgress, "image_version": imageVersion(i.OSImage), "events": list(i.VM.Events),
	}
	if i.InstanceID != "" {
		out["app_url"] = fmt.Sprintf("https://%s-%d.%s", i.InstanceID, agentPort, e.cfg.Domain)
	}
	newer := e.newer()
	if newer {
		out["interfaces"] = interfaces(i)
	}
	if !brief {
		out["configuration"] = configuration(i, newer)
	}
	return out
}

func configuration(i cloud.VMInfo, newer bool) map[string]any {
	env, _ := hex.DecodeString(i.EncryptedEnv) // the server wrote it
	out := map[string]any{
		"name": i.Name, "image": i.OSImage, "compose_file": i.VM.ComposeFile, "vcpu": i.VM.VCPU, "memory": i.VM.MemoryMB, "disk_size": i.DiskGB,
		"ports": list(i.VM.Ports), "encrypted_env": hexBytes(env), "app_id": i.AppID, "user_config": i.VM.UserConfig, "hugepages": i.VM.HugePages,
		"pin_numa": i.VM.PinNUMA, "gpus": map[string]any{"gpus": []any{}, "attach_mode": attachMode(i.VM.AttachMode)},
		"kms_urls": list(i.VM.KMSURLs), "gateway_urls": list(i.VM.GatewayURLs), "stopped": !i.PowerOn, "no_tee": i.VM.NoTEE, "networking": nil,
	}
	if newer {
		out["networks"] = list(i.VM.Networks)
	} else if len(i.VM.Networks) > 0 {
		out["networking"] = map[string]any{"mode": i.VM.Networks[0].Mode}
	}
	return out
}

func attachMode(mode string) string {
	if mode == "" {
		return "listed"
	}
	return mode
}

func interfaces(i cloud.VMInfo) []any {
	networks := i.VM.Networks
	if len(networks) == 0 {
		networks = []cloud.VMNetwork{{Mode: "user"}}
	}
	out := []any{}
	for n, net := range networks {
		backend := "slirp"
		if net.Mode == "bridge" {
			backend = "tap_bridge"
		}
		out = append(out, map[string]any{
			"mode": net.Mode, "backend": backend, "mac": fmt.Sprintf("02:00:00:%02x:%02x:%02x", i.Index>>8&0xff, i.Index&0xff, n),
			"bridge_name": orNil(net.BridgeName), "netdev_id": fmt.Sprintf("net%d", n),
		})
	}
	return out
}

// page cuts items; page counts from 1, and 0 is everything.
func page[T any](items []T, number, size uint32) []T {
	if number == 0 || size == 0 {
		return items
	}
	from := min(uint64(number-1)*uint64(size), uint64(len(items)))
	return slices.Clip(items[from:min(from+uint64(size), uint64(len(items)))])
}
