package vmm

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

// Words of a VMM for the status of a CVM: whether it is to run, and whether its process runs.
const (
	statusRunning  = "running"  // to run, runs
	statusExited   = "exited"   // to run, does not: the host starts it again
	statusStopping = "stopping" // not to run, runs
	statusStopped  = "stopped"  // not to run, does not
	statusRemoving = "removing" // the directory goes, however long the process takes
)

// eventExhausted is the event of a host (from 0.6 on) that starts a CVM no more.
const eventExhausted = "vmm.auto_restart.exhausted"

// vmInfo is a CVM as its host shows it. Configuration is nil in a brief list.
type vmInfo struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	Status        string         `json:"status"`
	AppURL        string         `json:"app_url"`
	AppID         string         `json:"app_id"`
	InstanceID    string         `json:"instance_id"`
	Uptime        string         `json:"uptime"` // of the process
	ExitedAt      string         `json:"exited_at"`
	BootProgress  string         `json:"boot_progress"`
	BootError     string         `json:"boot_error"`
	Configuration *configuration `json:"configuration"`
	Events        []struct {
		Event string `json:"event"`
		Body  string `json:"body"`
	} `json:"events"`
}

// configuration is the wanted state of a CVM, as CreateVm takes it and as the next boot has it.
type configuration struct {
	Name         string       `json:"name"`
	Image        string       `json:"image"`
	ComposeFile  string       `json:"compose_file"`
	VCPU         uint32       `json:"vcpu"`
	Memory       uint32       `json:"memory"`    // MB
	DiskSize     uint32       `json:"disk_size"` // GB
	EncryptedEnv string       `json:"encrypted_env,omitempty"`
	AppID        string       `json:"app_id,omitempty"`
	GPUs         *gpuConfig   `json:"gpus,omitempty"`
	Stopped      bool         `json:"stopped"`
	Networking   *networking  `json:"networking,omitempty"` // up to 0.5.11
	Networks     []networking `json:"networks,omitempty"`   // later
}

type networking struct {
	Mode string `json:"mode"`
}

type gpuConfig struct {
	GPUs       []gpuSlot `json:"gpus"`
	AttachMode string    `json:"attach_mode"`
}

type gpuSlot struct {
	Slot string `json:"slot"`
}

// updateRequest is a change of a CVM. An absent member stays as it is.
type updateRequest struct {
	ID           string     `json:"id"`
	ComposeFile  string     `json:"compose_file,omitempty"`
	EncryptedEnv string     `json:"encrypted_env,omitempty"`
	GPUs         *gpuConfig `json:"gpus,omitempty"`
	VCPU         uint32     `json:"vcpu,omitempty"`
	Memory       uint32     `json:"memory,omitempty"`
	DiskSize     uint32     `json:"disk_size,omitempty"`
	Image        string     `json:"image,omitempty"`
}

type idRequest struct {
	ID string `json:"id"`
}

// status is the status in the words of package platform.
func (v vmInfo) status() string { return strings.ToLower(strings.TrimSpace(v.Status)) }

// givenUp reports a CVM that ended, and that the host does not start again: it says so, or
// it did nothing for ten minutes, since its automatic start may be switched off.
func (v vmInfo) givenUp() bool {
	if n := len(v.Events); n > 0 && v.Events[n-1].Event == eventExhausted {
		return true
	}
	return longAgo(v.ExitedAt, 10)
}

// booting reports a guest whose last word is a step of its boot. Its host shows "running" from the first
// moment on, while no guest agent can be asked to shut down. A guest may be silent, or hang: after
// five minutes the CVM counts as running.
func (v vmInfo) booting() bool {
	switch strings.ToLower(v.BootProgress) {
	case "", "n/a", "running", "done": // unknown, or over
		return false
	}
	return v.BootError == "" && !longAgo(v.Uptime, 5)
}

// spanForm is a part of a time span as hosts write it, e.g. "3m" of "2h 3m 1s".
var spanForm = regexp.MustCompile(`^([0-9]{1,9})(years?|months?|days?|h|m)$`)

// longAgo reads a span such as "12m 5s": at least these minutes.
func longAgo(span string, minutes int) bool {
	for part := range strings.FieldsSeq(span) {
		if m := spanForm.FindStringSubmatch(part); m != nil {
			n, err := strconv.Atoi(m[1])
			return err == nil && (m[2] != "m" || n >= minutes)
		}
	}
	return false
}

func (v vmInfo) instance(h *host) platform.Instance {
	i := platform.Instance{
		ID: v.ID, VMUUID: strings.ToLower(v.ID), Name: v.Name, AppID: words.ID(v.AppID), InstanceID: words.ID(v.InstanceID),
		Status: v.status(), Node: h.Name, BootError: h.clean(v.BootError), GatewayDomain: gatewayDomain(v.AppURL),
	}
	switch i.Status {
	case statusRunning:
		i.InProgress = v.booting()
	case statusExited:
		i.InProgress = !v.givenUp()
		if n := len(v.Events); !i.InProgress && i.BootError == "" && n > 0 && v.Events[n-1].Event == eventExhausted {
			i.BootError = h.clean(v.Events[n-1].Body)
		}
	case statusRemoving:
		i.Status, i.InProgress = "deleting", true
	case statusStopping:
		i.InProgress = true
	}
	if cfg := v.Configuration; cfg != nil {
		i.OSImage, i.InstanceType, i.DiskGB = cfg.Image, cfg.size().name(), int(cfg.DiskSize)
		if cfg.ComposeFile != "" { // a host that cannot read the file shows none
			i.ComposeHash = hashOf(cfg.ComposeFile)
		}
	}
	return i
}

// hashOf is the compose hash of a text, 64 hex digits.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// appIDSize is the size of an application id in bytes, 40 hex digits.
const appIDSize = 20

// gatewayDomain is the part behind the first dot of the host in a CVM's URL; "" when there is none.
func gatewayDomain(appURL string) string {
	u, err := url.Parse(appURL)
	if err != nil {
		return ""
	}
	_, domain, _ := strings.Cut(u.Hostname(), ".")
	return words.Domain(domain)
}

var (
	uuidForm  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	hex40Form = regexp.MustCompile(`^[0-9a-f]{40}$`)
)
