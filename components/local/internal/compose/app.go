package compose

import (
	"syscall"
	"time"
)

// App is a compose file, understood.
type App struct {
	// Services in start order: dependencies first, then by name.
	Services []Service
	Volumes  map[string]Volume
	// Notes are keys that were accepted and have no effect here.
	Notes []string
}

// Service is one service, with everything the runtime honours.
type Service struct {
	Name  string
	Image string
	// Entrypoint and Command: nil takes the image's, empty clears it.
	Entrypoint []string
	Command    []string
	Env        map[string]string
	// User is "", "name", "uid", "uid:gid" or "name:group".
	User       string
	Groups     []string
	WorkingDir string
	Hostname   string
	// Hosts are extra lines of /etc/hosts, "address name".
	Hosts     []string
	Mounts    []Mount
	DependsOn []Dependency
	// Health is nil without a check; then the image's holds, unless NoHealth.
	Health     *Health
	NoHealth   bool
	Restart    Restart
	MaxRetries int // of RestartOnFailure; 0 is without end
	// StopSignal is 0 for the image's, or else SIGTERM.
	StopSignal syscall.Signal
	StopGrace  time.Duration
	CapAdd     []string
	CapDrop    []string
	ReadOnly   bool
	// Limits are resource limits by prlimit name, "soft:hard".
	Limits map[string]string
}

// MountKind is the kind of a mount's source.
type MountKind string

const (
	// MountVolume is a named volume: on the data disk, or a per-boot tmpfs.
	MountVolume MountKind = "volume"
	// MountTmpfs is private to the service and to one start of it.
	MountTmpfs MountKind = "tmpfs"
	// MountGuest is the guest agent's socket.
	MountGuest MountKind = "guest"
	// MountConfig is a read-only file with Content.
	MountConfig MountKind = "config"
)

// Mount is one thing visible at Target.
type Mount struct {
	Kind     MountKind
	Source   string // volume name, for MountVolume
	Target   string
	ReadOnly bool
	Content  string
	Mode     uint32 // of a tmpfs or config; 0 takes the default
	UID, GID int
	Size     int64 // of a tmpfs, bytes; 0 is unbounded
}

// Volume is one named volume.
type Volume struct {
	Name string
	// Tmpfs: a fresh tmpfs at each boot, shared by the services that mount it.
	Tmpfs bool
	// Options of the tmpfs as mount(8) takes them, without device.
	Options string
}

// Condition is the state that a Dependency waits for.
type Condition string

const (
	// Started means that the process has been started once.
	Started Condition = "service_started"
	// Healthy means that its health check passes.
	Healthy Condition = "service_healthy"
	// Completed means that it ended with code 0.
	Completed Condition = "service_completed_successfully"
)

// Dependency is one edge of depends_on.
type Dependency struct {
	Service   string
	Condition Condition
}

// Restart is when an ended service is started again.
type Restart string

const (
	// RestartNo leaves it ended.
	RestartNo Restart = "no"
	// RestartAlways starts it again, also at the next boot.
	RestartAlways Restart = "always"
	// RestartUnlessStopped is RestartAlways within a boot. At the next boot the engine restores the
	// container only after a power cut.
	RestartUnlessStopped Restart = "unless-stopped"
	// RestartOnFailure restarts after a code other than 0.
	RestartOnFailure Restart = "on-failure"
)

// Health is a health check. Test runs inside the service's namespaces.
type Health struct {
	Test          []string
	Interval      time.Duration
	Timeout       time.Duration
	Retries       int
	StartPeriod   time.Duration
	StartInterval time.Duration
}
