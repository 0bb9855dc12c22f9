package phala

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// text accepts a string, a number or null, and decodes anything else to "".
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
		return nil
	}
	if len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') {
		*t = text(b)
		return nil
	}
	*t = ""
	return nil
}

// flag accepts a boolean and reads anything else as false.
type flag bool

func (f *flag) UnmarshalJSON(b []byte) error {
	*f = flag(string(b) == "true")
	return nil
}

// whole accepts a number, also written as text; anything else is 0.
type whole int

func (w *whole) UnmarshalJSON(b []byte) error {
	var n float64
	if json.Unmarshal([]byte(strings.Trim(string(b), `"`)), &n) == nil {
		*w = whole(n)
	}
	return nil
}

// decimal accepts a number; anything else is 0.
type decimal float64

func (d *decimal) UnmarshalJSON(b []byte) error {
	var n float64
	if json.Unmarshal(b, &n) == nil {
		*d = decimal(n)
	}
	return nil
}

// object decodes a JSON object leniently: another type leaves it empty.
type object[T any] struct{ V T }

func (o *object[T]) UnmarshalJSON(b []byte) error {
	var v T
	if json.Unmarshal(b, &v) == nil {
		o.V = v
	}
	return nil
}

type progress struct {
	Target      text `json:"target"`
	Correlation text `json:"correlation_id"`
}

type cvm struct {
	ID          text             `json:"id"`
	Name        text             `json:"name"`
	AppID       text             `json:"app_id"`
	VMUUID      text             `json:"vm_uuid"`
	InstanceID  text             `json:"instance_id"`
	Status      text             `json:"status"`
	InProgress  flag             `json:"in_progress"`
	Progress    object[progress] `json:"progress"`
	ComposeHash text             `json:"compose_hash"`
	UpdatedAt   text             `json:"updated_at"`
	EnvKey      text             `json:"encrypted_env_pubkey"`
	KMS         object[struct {
		EnvKey text `json:"encrypted_env_pubkey"`
	}] `json:"kms_info"`
	Node object[struct {
		ID   text `json:"id"`
		Name text `json:"name"`
	}] `json:"node_info"`
	OS object[struct {
		Name text `json:"name"`
	}] `json:"os"`
	Resource object[struct {
		InstanceType text    `json:"instance_type"`
		VCPU         whole   `json:"vcpu"`
		MemoryGB     decimal `json:"memory_in_gb"`
		DiskGB       whole   `json:"disk_in_gb"`
	}] `json:"resource"`
	DiskSize whole `json:"disk_size"`
	Gateway  object[struct {
		BaseDomain text `json:"base_domain"`
	}] `json:"gateway"`
}

func (v cvm) instance() platform.Instance {
	i := platform.Instance{
		ID: string(v.ID), VMUUID: dashedUUID(string(v.VMUUID)), Name: string(v.Name),
		AppID: words.ID(string(v.AppID)), InstanceID: words.ID(string(v.InstanceID)),
		Status:      strings.ToLower(strings.TrimSpace(string(v.Status))),
		InProgress:  bool(v.InProgress) || v.Progress.V.Target != "",
		ComposeHash: words.ID(string(v.ComposeHash)), OSImage: string(v.OS.V.Name),
		InstanceType: string(v.Resource.V.InstanceType), DiskGB: int(cmp.Or(v.Resource.V.DiskGB, v.DiskSize)),
		Node:   string(cmp.Or(v.Node.V.ID, v.Node.V.Name)),
		EnvKey: envKey(string(v.EnvKey)),
	}
	if i.EnvKey == nil {
		i.EnvKey = envKey(string(v.KMS.V.EnvKey))
	}
	i.GatewayDomain = words.Domain(string(v.Gateway.V.BaseDomain))
	i.UpdatedAt = stamp(string(v.UpdatedAt))
	i.InProgress = underWay(i)
	return i
}

// stamp reads an RFC 3339 time, with or without a zone (then UTC); zero when it is neither.
func stamp(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

var (
	uuidForm  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	hex40Form = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)
	hex32Form = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// pathID turns any name of a CVM into the form that /cvms/{cvm} takes.
func pathID(id string) string {
	id = strings.TrimSpace(id)
	switch {
	case uuidForm.MatchString(id):
		return strings.ToLower(strings.ReplaceAll(id, "-", ""))
	case hex40Form.MatchString(id):
		return "app_" + strings.ToLower(id)
	}
	return id
}

// dashedUUID gives every UUID one form, so that records compare equal.
func dashedUUID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if !hex32Form.MatchString(s) {
		return s
	}
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// envKey reads 32 bytes as hex or base64; nil when it is neither.
func envKey(s string) []byte {
	s = strings.TrimSpace(s)
	if raw, err := hex.DecodeString(strings.TrimPrefix(s, "0x")); err == nil && len(raw) == 32 {
		return raw
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if raw, err := enc.DecodeString(s); err == nil && len(raw) == 32 {
			return raw
		}
	}
	return nil
}
