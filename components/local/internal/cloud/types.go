package cloud

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the API's status of a CVM.
type Status string

const (
	// Pending is created; its first boot has not begun.
	Pending Status = "pending"
	// Starting is booting.
	Starting Status = "starting"
	// Running means that the VM runs; it says nothing about its services.
	Running Status = "running"
	// Updating is being stopped and booted with another compose, env or image.
	Updating Status = "updating"
	// Restarting is being stopped and booted as it was.
	Restarting Status = "restarting"
	// Stopping is being stopped hard.
	Stopping Status = "stopping"
	// ShuttingDown is being stopped by its guest.
	ShuttingDown Status = "shutting_down"
	// Stopped is not running.
	Stopped Status = "stopped"
	// Deleting is about to disappear with its disk.
	Deleting Status = "deleting"
)

// CVM is the record of one CVM. Copies are handed out; the Cloud owns the original.
type CVM struct {
	Num        int    `json:"num"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	AppID      string `json:"app_id"`
	VMUUID     string `json:"vm_uuid"`
	InstanceID string `json:"instance_id"`
	// Seed makes the instance id; it lives with the record, as on a real host.
	Seed []byte `json:"seed"`
	// Index is the CVM's place in the fabric, unique while it lives.
	Index int `json:"index"`

	Status    Status    `json:"status"`
	Progress  *Progress `json:"progress,omitempty"`
	BootError string    `json:"boot_error"`
	// BootDetail is text that a real guest writes only to its own log.
	BootDetail   string `json:"boot_detail,omitempty"`
	BootProgress string `json:"boot_progress"`
	// PowerOn is the owner's request; a restarted daemon boots the CVMs with it.
	PowerOn bool `json:"power_on"`
	Boots   int  `json:"boots"`

	ComposeHash  string `json:"compose_hash"`
	EncryptedEnv string `json:"encrypted_env"`
	OSImage      string `json:"os_image"`
	InstanceType string `json:"instance_type"`
	DiskGB       int    `json:"disk_gb"`
	NodeID       int    `json:"node_id"`
	Listed       bool   `json:"listed"`
	// ShutdownTimeout is how many seconds a shutdown may take; 0: as long as the services'
	// own graces.
	ShutdownTimeout int `json:"shutdown_timeout,omitempty"`

	// VM is the work folder of a CVM that a host of dstack-vmm made; nil on Phala's platform.
	VM *VM `json:"vm,omitempty"`

	// Tasks are its tasks, oldest first.
	Tasks []Task `json:"tasks,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	BootedAt  time.Time `json:"booted_at"`
	// VisibleAt is when lookups begin to find a new CVM.
	VisibleAt time.Time `json:"visible_at"`
}

// Progress is an operation that has been accepted and is not done.
type Progress struct {
	Operation     string    `json:"operation"`
	Target        Status    `json:"target"`
	StartedAt     time.Time `json:"started_at"`
	CorrelationID string    `json:"correlation_id"`
	// Shown is false while the accepted operation does not show yet.
	Shown bool `json:"shown"`
	// Was is the hardware that the CVM reports until the operation shows; nil: the operation
	// changes none.
	Was *Hardware `json:"was,omitempty"`
}

// Hardware is the part of a CVM's virtual machine that can change in place.
type Hardware struct {
	OSImage      string `json:"os_image"`
	InstanceType string `json:"instance_type"`
	DiskGB       int    `json:"disk_gb"`
}

// InstanceType is a size on offer.
type InstanceType struct {
	Name           string
	VCPU, MemoryMB int
}

// InstanceTypes are all sizes on offer, the default first.
var InstanceTypes = []InstanceType{{"tdx.small", 1, 2048}, {"tdx.medium", 2, 4096}, {"tdx.large", 4, 8192}}

// InstanceTypeNamed finds a size; an unknown name (a record of an older daemon) is read
// as the default.
func InstanceTypeNamed(name string) (InstanceType, bool) {
	for _, t := range InstanceTypes {
		if t.Name == name {
			return t, true
		}
	}
	return InstanceTypes[0], false
}

// App is one application: the composes it may run and their history.
type App struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Committed is false until its first CVM: provisioned apps are not listed.
	Committed bool `json:"committed"`
	// Template is the compose hash that a new instance gets by default.
	Template string `json:"template"`
	// Composes holds app-compose.json by hash, provisioned ones included.
	Composes  map[string]string `json:"composes"`
	Revisions []Revision        `json:"revisions"` // oldest first
	// Shape is the provisioned shape of the app, for its first CVM.
	Shape     Shape     `json:"shape"`
	CreatedAt time.Time `json:"created_at"`
}

// Shape is the virtual hardware and placement of a CVM.
type Shape struct {
	Name         string `json:"name"`
	OSImage      string `json:"os_image"`
	InstanceType string `json:"instance_type"`
	DiskGB       int    `json:"disk_gb"`
	NodeID       int    `json:"node_id"`
	Listed       bool   `json:"listed"`
}

// Revision is one applied compose.
type Revision struct {
	ID          string    `json:"revision_id"`
	VMUUID      string    `json:"vm_uuid"`
	ComposeHash string    `json:"compose_hash"`
	Operation   string    `json:"operation_type"`
	TraceID     string    `json:"trace_id"`
	CreatedAt   time.Time `json:"created_at"`
}

// Settings are the cloud's timing habits; changeable while it runs.
type Settings struct {
	// BootDelay is spent before the services of a CVM start.
	BootDelay Duration `json:"boot_delay"`
	// BootDelays overrides BootDelay by CVM name.
	BootDelays map[string]Duration `json:"boot_delays,omitempty"`
	// AcceptLag is how long an accepted operation does not show: the CVM still
	// reads as it was.
	AcceptLag Duration `json:"accept_lag"`
	// CreateHidden is how long a new CVM is not found.
	CreateHidden Duration `json:"create_hidden"`
	// CreateConflict refuses a create that follows another within this time.
	CreateConflict Duration `json:"create_conflict"`
	// DeleteLag is how long a deleted CVM lingers as "deleting".
	DeleteLag Duration `json:"delete_lag"`
	// AutoRestart boots a CVM again this long after an unplanned death; 0 never. Hosts of dstack-vmm
	// look for dead VMs once in this time.
	AutoRestart Duration `json:"auto_restart"`
	// CreateTwice makes a second CVM where a create is repeated, as servers did before
	// March 2026.
	CreateTwice bool `json:"create_twice"`
	// Suspended refuses each change, as of a workspace that did not pay.
	Suspended bool `json:"suspended"`
	// NoPatch serves no PATCH /cvms/{cvm}, as older servers.
	NoPatch bool `json:"no_patch"`
	// NoOperations serves no records of operations, as older servers.
	NoOperations bool `json:"no_operations"`
	// DropEmptyApps forgets an app with its last CVM.
	DropEmptyApps bool `json:"drop_empty_apps"`
	// HostUpdated says that the one host of this cloud has the firmware that the simulated manufacturer's
	// `replaced` asks for: each CVM shows it from its next boot on.
	HostUpdated bool `json:"host_updated"`
	// KMSAuth is the base URL of the webhook that the KMS asks before it gives keys to a guest;
	// empty: each guest gets its keys.
	KMSAuth string `json:"kms_auth"`
	// VMMVersion is the version of dstack-vmm whose habits the hosts have; empty is
	// DefaultVMMVersion.
	VMMVersion string `json:"vmm_version,omitempty"`
}

// Duration is a time.Duration that is "1.5s" in JSON.
type Duration time.Duration

// MarshalJSON writes the Go notation.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads the Go notation.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("duration: want a string such as \"1.5s\": %w", err)
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return fmt.Errorf("duration %q: want a positive one such as \"1.5s\"", text)
	}
	*d = Duration(v)
	return nil
}
