package group

import "cadre.dev/core/window"

// Spec is the desired state of one group: the document that operators write at
// groups/<name>/spec. The JSON form is the record; HCL and Terraform use the
// same names. Decode refuses unknown fields and Validate reports all problems.
type Spec struct {
	// Name of the group: lower-case letters, digits and '-', at most 40 bytes,
	// starting with a letter (the strictest of platform name, Consul node name,
	// DNS label and SPIFFE path; threat model IDN-02).
	Name string `json:"name"`
	// Platform is the driver, one of Platforms.
	Platform string `json:"platform"`
	// AppID is the platform's application, 40 lower-case hex characters. Empty:
	// the first create allots it and the Slots' records keep it.
	AppID string `json:"app_id,omitempty"`
	// Replicas is the number of Slots: of the first ordinals, from FirstOrdinal on, that Without does not name.
	Replicas int `json:"replicas"`
	// FirstOrdinal is the ordinal of the group's first Slot; default 0. A change is a change of size: Slots below it are
	// removed like those beyond the last, and as many are made (R110).
	FirstOrdinal int `json:"first_ordinal,omitempty"`
	// Without names Slots that the group does not have. The leader removes an existing Slot of that
	// name, and leaves the ordinal unused while the entry exists.
	Without []string `json:"without,omitempty"`
	// Stopped: each CVM is drained and stopped, and keeps its disk until the group is started again. It is not part of
	// the Revision.
	Stopped bool `json:"stopped,omitempty"`
	// After names the groups that this one follows: its creation and the steps of its rollouts wait until each of them
	// has finished its own rollout and is available. It is not part of the Revision.
	After []string `json:"after,omitempty"`
	// Priority decides which group waits at a limit of the cluster: a higher one goes first; absent: DefaultPriority. It
	// is not part of the Revision.
	Priority         *int             `json:"priority,omitempty"`
	Template         Template         `json:"template"`
	ManagementPolicy ManagementPolicy `json:"management_policy,omitempty"`
	UpdatePolicy     UpdatePolicy     `json:"update_policy"`
	PreservedState   PreservedState   `json:"preserved_state,omitzero"`
	// Placement chooses nodes for new CVMs. It is not part of the Revision.
	Placement      Placement       `json:"placement,omitzero"`
	Workload       Workload        `json:"workload,omitzero"`
	LifecycleHooks []LifecycleHook `json:"lifecycle_hook,omitempty"`
	HealthChecks   []HealthCheck   `json:"health_check,omitempty"`
	// AutoHealing repairs failed members automatically; absent: an operator repairs them. Neither
	// AutoHealing nor RestartPolicy is part of the Revision.
	AutoHealing   *AutoHealing  `json:"auto_healing_policies,omitempty"`
	RestartPolicy RestartPolicy `json:"restart_policy,omitzero"`
	Backends      []Backend     `json:"backend,omitempty"`
	// Routes are names that other groups dial and that lead to a backend of this one.
	Routes []Route `json:"route,omitempty"`
	// ConsulPermissions widen the rights of the group's Consul token, inside its own keys.
	ConsulPermissions ConsulPermissions `json:"consul_permissions,omitzero"`
	// Secrets that the group's Slots get as files in memory.
	Secrets []Secret `json:"secret,omitempty"`
	// Gates hold work until an operator or a program opens them. They are not part of the Revision.
	Gates []Gate `json:"gate,omitempty"`
	// NotSecret names entries of env, meta and settings that look like secrets but
	// are none; without it they are refused (SECRET_IN_SPEC).
	NotSecret []string `json:"not_secret,omitempty"`
	// Meta is handed to the workload; it is not part of the Revision.
	Meta map[string]string `json:"meta,omitempty"`
	// Instances are settings of single Slots.
	Instances []InstanceSettings `json:"instance,omitempty"`
	// RestartToken is part of the Revision's identity (R3): changing it rolls
	// the group without any other change.
	RestartToken string `json:"restart_token,omitempty"`
}

// Template is the content of a Revision: every field is measured or changes behaviour (R3).
type Template struct {
	// Compose is the compose file's text. Every image is pinned by digest.
	Compose string `json:"compose"`
	// Env is delivered encrypted and is not measured: never trusted, never a secret.
	Env map[string]string `json:"env,omitempty"`
	// InstanceType is the platform's size name, e.g. "tdx.small".
	InstanceType string `json:"instance_type"`
	// OSImage is the guest image's name, e.g. "dstack-0.5.7".
	OSImage string `json:"os_image"`
	// DiskGB is the data disk's size; it can only grow.
	DiskGB int `json:"disk_gb,omitempty"`
}

// ManagementPolicy says how Slots are created.
type ManagementPolicy string

const (
	// OrderedReady creates one Slot at a time in ordinal order, each after its predecessor is
	// available. The Slots that bootstrap a set are created together, because each needs the others
	// to become available. The default.
	OrderedReady ManagementPolicy = "ORDERED_READY"
	// Parallel creates all missing Slots at once.
	Parallel ManagementPolicy = "PARALLEL"
)

// UpdateType names the event that starts the move to a new Revision.
type UpdateType string

const (
	// Proactive rolls as soon as the spec changes. The default.
	Proactive UpdateType = "PROACTIVE"
	// Opportunistic applies a Revision only when something else touches the Slot.
	Opportunistic UpdateType = "OPPORTUNISTIC"
)

// OnFailure names the action after a failed rollout.
type OnFailure string

const (
	// Pause stops voluntary work and keeps the mixed state (R99). The default.
	Pause OnFailure = "PAUSE"
	// Rollback moves the Slots back to the stable Revision, where the failure is evidence about the Revision (R101).
	Rollback OnFailure = "ROLLBACK"
)

// UpdatePolicy bounds the disruption of a rollout.
type UpdatePolicy struct {
	Type UpdateType `json:"type,omitempty"`
	// MinimalAction makes each step of a rollout at least as harsh: NONE (default), REFRESH,
	// RESTART or REPLACE (R15b). Changes that need no step get none.
	MinimalAction UpdateAction `json:"minimal_action,omitempty"`
	// MostDisruptiveAllowedAction bounds the cost of a change of the spec: a change that costs more
	// is rejected, and a Slot that would need more is held. Default REPLACE: no bound (R132). The
	// bound does not apply to healing and to an operator's request by a Slot's name.
	MostDisruptiveAllowedAction UpdateAction `json:"most_disruptive_allowed_action,omitempty"`
	// MaxUnavailableFixed is a number of Slots; exclusive with the percent. Both
	// absent means 1. Zero is refused where there is no extra Slot (R15).
	MaxUnavailableFixed *int `json:"max_unavailable_fixed,omitempty"`
	// MaxUnavailablePercent of Replicas, rounded down, floor 1 where it is not 0 (R12, R13, R15).
	MaxUnavailablePercent *int `json:"max_unavailable_percent,omitempty"`
	// MaxSurgeFixed is how many extra Slots the group may have while a rollout runs: they join,
	// are updated first and leave at its end, with their disks. As many more of the others
	// may be unavailable (R15a). Absent means 0.
	MaxSurgeFixed *int `json:"max_surge_fixed,omitempty"`
	// MaxSurgePercent of Replicas, rounded up (R12, R14); excludes MaxSurgeFixed.
	MaxSurgePercent *int `json:"max_surge_percent,omitempty"`
	// MaxCreating is how many CVMs of the group are created at a time, with PARALLEL creations (R107). Absent means all.
	MaxCreating *int `json:"max_creating,omitempty"`
	// MinReadySeconds is how long a Slot is available without a break before it
	// counts (R8); 0..3600, default 30.
	MinReadySeconds *int `json:"min_ready_seconds,omitempty"`
	// Partition keeps ordinals below it at their assigned Revision (R94).
	Partition int       `json:"partition,omitempty"`
	OnFailure OnFailure `json:"on_failure,omitempty"`
	// MaxFailed is how many Slots may fail their step while the rollout goes on with the others (R100). Refused for
	// voters. Default 0: the first failure fails the rollout.
	MaxFailed int `json:"max_failed,omitempty"`
	// HealthyDeadline runs from the accepted platform call to available (R87). Default 10m.
	HealthyDeadline Duration `json:"healthy_deadline,omitempty"`
	// ProgressDeadline restarts with each Slot that arrives (R88). Default 3 x HealthyDeadline.
	ProgressDeadline Duration `json:"progress_deadline,omitempty"`
	// StepDelay is the pause between the end of one step of a rollout and the beginning of the next
	// one (R96); at most 24h, default none. Repairs of stopped members start without this pause.
	StepDelay Duration `json:"step_delay,omitempty"`
	// Stages let the Slots move in parts, in this order, and Bake is the time after the last Slot until the Revision
	// becomes stable (R91). A Slot that fails while it bakes is evidence against the Revision.
	Stages []Stage  `json:"stage,omitempty"`
	Bake   Duration `json:"bake,omitempty"`
	// Windows are the times at which a step of a rollout may begin (R97); none: at any time.
	Windows window.Windows `json:"window,omitempty"`
	// Leader is "last" (default) or "ask". With "ask" the step of the leading Slot waits for an
	// operator who names it.
	Leader string `json:"leader,omitempty"`
	// Irreversible is "ask" (also the default) or "allow". With "ask" a step after which an older version
	// of the workload no longer runs on the data waits for an operator who names its Slot (package upgrade).
	Irreversible string `json:"irreversible,omitempty"`
	// Order is empty (by role and ordinal) or "by_domain": the members of one failure domain, the
	// placement's, are updated before those of the next one.
	Order string `json:"order,omitempty"`
	// ParallelVoters lifts the cap of one voter at a time (R17).
	ParallelVoters bool `json:"parallel_voters,omitempty"`
	// RequireApproval holds each new Revision back, the group's first one too, until
	// a person approves it: `cadre admission approve <revision>` (ATT-15).
	RequireApproval bool `json:"require_approval,omitempty"`
	// Interruption is "refuse" or "allow": whether a rollout that must lose quorum
	// (two voters) or the only member may proceed (R18, R19).
	Interruption string `json:"interruption,omitempty"`
}

// PreservedState names the disk that neither a scale-in nor, while its CVM is there, healing deletes.
type PreservedState struct {
	// Disk is the data disk's name.
	Disk string `json:"disk,omitempty"`
}

// Workload names the driver that knows the workload.
type Workload struct {
	// Kind: "consul", "patroni", "etcd", "custom" (behind an adapter), or "none" (also the default): no
	// roles, no quorum.
	Kind string `json:"kind,omitempty"`
	// Settings of the driver. SettingsOf lists the known ones.
	Settings map[string]string `json:"settings,omitempty"`
}

// Transition is the point at which a lifecycle hook runs.
type Transition string

const (
	// PreTerminate runs before anything disruptive happens to the Slot.
	PreTerminate Transition = "PRE_TERMINATE"
	// PostLaunch runs after admission, before the Slot counts as joined.
	PostLaunch Transition = "POST_LAUNCH"
)

// HookResult is the decision of a hook (R80).
type HookResult string

const (
	// HookContinue continues the step.
	HookContinue HookResult = "CONTINUE"
	// HookAbandon aborts the step; the Slot returns to service.
	HookAbandon HookResult = "ABANDON"
	// HookHold keeps the Slot where it is until an operator decides.
	HookHold HookResult = "HOLD"
)

// LifecycleHook is named work at a Transition. Exactly one of HTTP, Exec, Wait
// and Driver is set.
type LifecycleHook struct {
	Name       string      `json:"name"`
	Transition Transition  `json:"transition"`
	HTTP       *HTTPAction `json:"http,omitempty"`
	Exec       *ExecAction `json:"exec,omitempty"`
	// Wait leaves the hook open until the workload completes it at the agent's API.
	Wait *WaitAction `json:"wait,omitempty"`
	// Driver asks the workload driver for the named work, e.g. "transfer".
	Driver *DriverAction `json:"driver,omitempty"`
	// HeartbeatTimeout restarts with each heartbeat; default 5m (R79).
	HeartbeatTimeout Duration `json:"heartbeat_timeout,omitempty"`
	// MaxDuration cannot be extended; default 1h (R79).
	MaxDuration Duration `json:"max_duration,omitempty"`
	// DefaultResult on time-out or failure; default ABANDON before disruption.
	DefaultResult HookResult `json:"default_result,omitempty"`
}

// HTTPAction calls the workload on the CVM's loopback.
type HTTPAction struct {
	Method string `json:"method,omitempty"` // default POST
	Port   int    `json:"port"`
	Path   string `json:"path"`
	// Expect is the status code that means success; default 2xx.
	Expect int `json:"expect,omitempty"`
}

// ExecAction runs a command in the container of a service. The measured compose text defines the
// command under this name, as an argument vector under the service's x-cadre key.
type ExecAction struct {
	Service string `json:"service"`
	Command string `json:"command"`
}

// WaitAction waits for a caller.
type WaitAction struct{}

// DriverAction names work of the workload driver.
type DriverAction struct {
	// Do: "transfer" hands leadership over, "drain" stops taking new work.
	Do string `json:"do"`
}

// HealthCheck judges the workload from inside the CVM. Exactly one of HTTP, TCP, GRPC, Exec and TTL
// is set. With TTL the workload reports, so the check has no interval, timeout or threshold.
type HealthCheck struct {
	Name string      `json:"name"`
	HTTP *HTTPCheck  `json:"http,omitempty"`
	TCP  *TCPCheck   `json:"tcp,omitempty"`
	GRPC *GRPCCheck  `json:"grpc,omitempty"`
	Exec *ExecAction `json:"exec,omitempty"`
	TTL  *TTLCheck   `json:"ttl,omitempty"`
	// CheckIntervalSec default 10, TimeoutSec default 5 and at most the interval.
	CheckIntervalSec int `json:"check_interval_sec,omitempty"`
	TimeoutSec       int `json:"timeout_sec,omitempty"`
	// HealthyThreshold default 2, UnhealthyThreshold default 3, 1..10.
	HealthyThreshold   int `json:"healthy_threshold,omitempty"`
	UnhealthyThreshold int `json:"unhealthy_threshold,omitempty"`
}

// HTTPCheck gets a path on the CVM's loopback.
type HTTPCheck struct {
	Port        int    `json:"port"`
	RequestPath string `json:"request_path"`
	// Expect is the wanted status code as text, default "200".
	Expect string `json:"expect,omitempty"`
}

// TCPCheck connects to a port on the CVM's loopback.
type TCPCheck struct {
	Port int `json:"port"`
}

// GRPCCheck asks grpc.health.v1.Health/Check on the CVM's loopback, without TLS.
type GRPCCheck struct {
	Port int `json:"port"`
	// Service that is asked about; "" is the server as a whole.
	Service string `json:"service,omitempty"`
}

// TTLCheck is answered by the workload itself, at its agent.
type TTLCheck struct {
	// TTLSec is how long a word holds, and how long a workload may say nothing; 2..3600.
	TTLSec int `json:"ttl_sec"`
}

// LoopbackAddress is where a workload listens that is not on its VIP.
const LoopbackAddress = "127.0.0.1"

// Backend is a port that Slots of this group offer to Peers on their VIP.
// Members of the same group may always use it; other groups only when allowed.
type Backend struct {
	Name string `json:"name"`
	// Protocol: "tcp" (default) or "udp".
	Protocol string `json:"protocol,omitempty"`
	Port     int    `json:"port"`
	// Address is where the workload listens, and nothing else is dialled for a Peer:
	// absent for the VIP, "127.0.0.1" for a TCP service that knows nothing of it.
	Address string `json:"address,omitempty"`
	// Allow lists other groups that may connect. It is also who may dial the routes that
	// lead here, and then this group too where it names itself.
	Allow []string `json:"allow,omitempty"`
	// Workload is the last part of the backend's identity in the service layer; absent: Name.
	Workload string `json:"workload,omitempty"`
	// Registration names the component that reports the backend's health and role to the catalog.
	Registration Registration `json:"registration,omitzero"`
}

// AgentConfig is the part of a Spec that agents act on; Desired carries it.
type AgentConfig struct {
	Group          string            `json:"group"`
	Slot           string            `json:"slot"`
	Workload       Workload          `json:"workload"`
	LifecycleHooks []LifecycleHook   `json:"lifecycle_hook,omitempty"`
	HealthChecks   []HealthCheck     `json:"health_check,omitempty"`
	Meta           map[string]string `json:"meta,omitempty"`
	// Members are the group's Slot names in ordinal order.
	Members []string `json:"members"`
	// ServiceMesh is the group's part in the service layer. It is not part of the Revision: routes
	// change without a rollout.
	ServiceMesh ServiceMesh `json:"service_mesh,omitzero"`
	// Membership is the Slot's part in the workload's set of members; nil: none now.
	Membership *Membership `json:"membership,omitempty"`
	// Revision assigned to this Slot.
	Revision string `json:"revision"`
	// AgentSpec is the Revision of the workload's driver, the hooks and the checks: the Revision at
	// which the Boot was admitted. Empty: the coordinator is too old to send it.
	AgentSpec string `json:"agent_spec,omitempty"`
	// MustUnderstand names fields and values of this text that an agent must know. Agents ignore
	// all other unknown fields, because they are upgraded after the coordinators. An agent that
	// finds an unknown name here keeps its present configuration, and reports that. Names so far:
	// NeedMembership.
	MustUnderstand []string `json:"must_understand,omitempty"`
}
