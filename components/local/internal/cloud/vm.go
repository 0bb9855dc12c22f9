package cloud

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultVMMVersion is the version of dstack-vmm whose habits a host has.
const DefaultVMMVersion = "0.5.11"

// VM is the work folder of a VM on a host of dstack-vmm: its manifest, and the files that the guest
// reads at its next start. Image, disk size, env and app id are in the CVM.
type VM struct {
	// ComposeFile is app-compose.json, byte for byte.
	ComposeFile string   `json:"compose_file"`
	UserConfig  string   `json:"user_config,omitempty"`
	VCPU        uint32   `json:"vcpu"`
	MemoryMB    uint32   `json:"memory"`
	Ports       []VMPort `json:"ports,omitempty"`
	HugePages   bool     `json:"hugepages,omitempty"`
	PinNUMA     bool     `json:"pin_numa,omitempty"`
	// AttachMode is that of GPUs: "listed" or "all".
	AttachMode  string      `json:"attach_mode,omitempty"`
	KMSURLs     []string    `json:"kms_urls,omitempty"`
	GatewayURLs []string    `json:"gateway_urls,omitempty"`
	NoTEE       bool        `json:"no_tee,omitempty"`
	Networks    []VMNetwork `json:"networks,omitempty"`

	// Disk says that the first start has made the data disk.
	Disk bool `json:"disk,omitempty"`
	// Removing says that the VM is being removed.
	Removing bool `json:"removing,omitempty"`
	// BeganAt and StoppedAt are when the last process began and ended; zero: never, or not yet.
	BeganAt   time.Time `json:"began_at,omitzero"`
	StoppedAt time.Time `json:"stopped_at,omitzero"`
	// Known says that the host's supervisor knows a process of the VM, running or ended. It knows none
	// before the first start, and none from before the host's own.
	Known bool `json:"-"`
	// Loaded is the manifest that the host shows while it cannot load the one on its disk; nil: both
	// are the same.
	Loaded *VMLoaded `json:"-"`

	// ShutdownProgress and Events are reports of the guest, which a restarted VMM has forgotten.
	ShutdownProgress string    `json:"-"`
	Events           []VMEvent `json:"-"`
}

// VMLoaded is the hardware of a manifest.
type VMLoaded struct {
	Image          string
	VCPU, MemoryMB uint32
	DiskGB         int
}

// VMPort maps a port of the host to a port of the VM.
type VMPort struct {
	Protocol    string `json:"protocol"`
	HostPort    uint32 `json:"host_port"`
	VMPort      uint32 `json:"vm_port"`
	HostAddress string `json:"host_address"`
}

// VMNetwork is a network interface: mode "user" or "bridge".
type VMNetwork struct {
	Mode       string `json:"mode"`
	BridgeName string `json:"bridge_name"`
}

// VMEvent is a report of the guest to its host.
type VMEvent struct {
	Event     string `json:"event"`
	Body      string `json:"body"`
	Timestamp int64  `json:"timestamp"` // milliseconds since 1970
}

// maxEvents is how many events a host remembers of a VM.
const maxEvents = 20

func (vm *VM) clone() *VM {
	if vm == nil {
		return nil
	}
	out := *vm
	out.Events = slices.Clone(vm.Events)
	return &out
}

// noteEvent remembers a report of the guest; called under the lock. Only hosts of dstack-vmm keep
// such reports.
func (v *CVM) noteEvent(event, body string) {
	if v.VM == nil {
		return
	}
	if n := len(v.VM.Events); n > 0 && v.VM.Events[n-1].Event == event && v.VM.Events[n-1].Body == body {
		return
	}
	v.VM.Events = append(v.VM.Events, VMEvent{Event: event, Body: body, Timestamp: time.Now().UnixMilli()})
	if over := len(v.VM.Events) - maxEvents; over > 0 {
		v.VM.Events = slices.Delete(v.VM.Events, 0, over)
	}
}

// VMInfo is a VM as its host sees it.
type VMInfo struct {
	CVM
	// Process says whether the VM's process runs.
	Process bool
}

// State is the status as dstack-vmm derives it.
func (i VMInfo) State() string {
	switch {
	case i.VM.Removing:
		return "removing"
	case i.PowerOn && i.Process:
		return "running"
	case i.PowerOn:
		return "exited"
	case i.Process:
		return "stopping"
	default:
		return "stopped"
	}
}

// VMs lists the VMs of one host, oldest first.
func (c *Cloud) VMs(host string) []VMInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []VMInfo{}
	for _, v := range c.st.CVMs {
		if v.VM != nil && c.hostOf(v) == host {
			out = append(out, c.vmInfo(v))
		}
	}
	return out
}

// VMInfo returns one VM of a host; found is false where the host has no such VM.
func (c *Cloud) VMInfo(host, id string) (info VMInfo, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if v == nil {
		return VMInfo{}, false
	}
	return c.vmInfo(v), true
}

// HostView is the host of a CVM and the status that the host shows; both empty on Phala's platform.
func (c *Cloud) HostView(v CVM) (host, state string) {
	if v.VM == nil {
		return "", ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	host = c.hostOf(&v)
	return host, VMInfo{CVM: v, Process: c.runs[v.VMUUID] != nil}.State()
}

func (c *Cloud) vmInfo(v *CVM) VMInfo {
	out := VMInfo{CVM: snapshot(v), Process: c.runs[v.VMUUID] != nil}
	if l := v.VM.Loaded; l != nil {
		out.OSImage, out.VM.VCPU, out.VM.MemoryMB, out.DiskGB = l.Image, l.VCPU, l.MemoryMB, l.DiskGB
	}
	return out
}

// vm finds a VM on its host; nil when there is none. Called under the lock.
func (c *Cloud) vm(host, id string) *CVM {
	for _, v := range c.st.CVMs {
		if v.VM != nil && v.VMUUID == id && c.hostOf(v) == host {
			return v
		}
	}
	return nil
}

// hostOf names the host of v; empty on Phala's platform.
func (c *Cloud) hostOf(v *CVM) string {
	if v.VM == nil || v.NodeID < 1 || v.NodeID > len(c.cfg.Hosts) {
		return ""
	}
	return c.cfg.Hosts[v.NodeID-1]
}

// CheckVMMVersion refuses a version of dstack-vmm whose habits this package does not know; empty is
// DefaultVMMVersion.
func CheckVMMVersion(version string) error {
	if version == "" || versionRule.MatchString(version) {
		return nil
	}
	return fmt.Errorf("%.40q is no version of dstack-vmm with known habits: give one such as %s or 0.6.0", version, DefaultVMMVersion)
}

var versionRule = regexp.MustCompile(`^0\.[56]\.[0-9]{1,3}$`)

// machine is the number of the physical host, from 0.
func (v *CVM) machine() int {
	if v.VM == nil {
		return 0
	}
	return v.NodeID - 1
}

// VMMVersion is the version of dstack-vmm whose habits the hosts have.
func (c *Cloud) VMMVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.settings.VMMVersion, DefaultVMMVersion)
}

// CheckHosts refuses a start on dir with hosts that do not fit the records there: nil is Phala's
// platform. Open makes the same check. A caller that writes files before Open calls CheckHosts first, so that a refused
// start leaves no trace.
func CheckHosts(dir string, hosts []string) error {
	st, err := readState(dir)
	if err != nil {
		return err
	}
	return st.checkHosts(hosts)
}

// checkHosts refuses hosts under which a VM would change its host, or have none.
func (st state) checkHosts(hosts []string) error {
	if len(st.CVMs) == 0 {
		return nil
	}
	of, kept := "Phala's platform: start with --platform phala", len(hosts) == 0
	if len(st.Hosts) > 0 {
		of = "the hosts " + strings.Join(st.Hosts, ",") + ": start with --platform vmm, and name these hosts first in --hosts, in the same order"
		kept = len(hosts) >= len(st.Hosts) && slices.Equal(hosts[:len(st.Hosts)], st.Hosts)
	}
	if kept {
		return nil
	}
	return fmt.Errorf("this cloud's %d CVMs are on %s, or start another cloud with a --state of its own", len(st.CVMs), of)
}
