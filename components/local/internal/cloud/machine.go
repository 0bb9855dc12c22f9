package cloud

import (
	"context"
	"net/netip"

	"cadre.dev/local/internal/initctl"
)

// BootSpec describes one boot of a CVM.
type BootSpec struct {
	UUID       string
	Name       string
	Index      int
	AppID      string
	AppCompose []byte
	Compose    string
	// InitScript runs in the guest before its container engine starts; empty is none.
	InitScript string
	Env        map[string]string
	Seed       []byte
	OSImage    string
	// VCPU and MemoryMB are the size that the guest sees and that is measured. A process of this
	// machine is not limited to them.
	VCPU     int
	MemoryMB int
	// HostUpdated says that the host has its newer firmware when this boot begins.
	HostUpdated bool
	// Machine is the number of the host, from 0, which its quotes name.
	Machine int
	// KMSAuth is the webhook that the KMS asks before the guest gets its keys; empty: none.
	KMSAuth string
	// Notify is called later with the outcome of starting the services, each time that
	// it changes.
	Notify func(Outcome)
}

// Outcome is how far the services of a boot are; the zero value: all are up.
type Outcome struct {
	// Error names a service that is not up, for callers that wait for the boot. The machine may
	// keep trying.
	Error string
	// Waiting says which service failed to start and is tried again.
	Waiting string
}

// Hypervisor boots CVMs. The error of Boot is the CVM's boot error.
type Hypervisor interface {
	Boot(ctx context.Context, spec BootSpec) (Machine, error)
	// Prepare does the slow work of Boot ahead; it is called while the boot delay passes, and
	// returns when ctx ends.
	Prepare(ctx context.Context, spec BootSpec)
	// Erase removes the CVM's disk and logs.
	Erase(uuid string) error
	// LoseDisk removes the disk only: the next boot finds an empty one.
	LoseDisk(uuid string) error
}

// Machine is one boot of a CVM. Safe for concurrent use.
type Machine interface {
	InstanceID() string
	Addr() netip.Addr
	// Done is closed when every process of the CVM is gone.
	Done() <-chan struct{}
	// Stop ends the services in order, each with its grace, then the machine. It
	// returns when the machine is gone.
	Stop(ctx context.Context)
	// Kill ends everything at once, without a word on the network.
	Kill()
	Exec(ctx context.Context, e initctl.Exec) (initctl.Output, error)
	Hold(ctx context.Context, h initctl.Hold) error
	Services(ctx context.Context) ([]initctl.Service, error)
	// SetLink plugs (true) or pulls (false) the network cable.
	SetLink(up bool) error
}
