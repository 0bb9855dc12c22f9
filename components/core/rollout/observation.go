package rollout

import (
	"cmp"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
	"cadre.dev/core/policy"
	"cadre.dev/core/queue"
)

// Health is three-valued; Unknown is a value of its own (R10).
type Health string

const (
	// Unknown is the zero value: no fresh report.
	Unknown Health = "unknown"
	// Healthy needs every input positive.
	Healthy Health = "healthy"
	// Unhealthy is a fresh negative report.
	Unhealthy Health = "unhealthy"
)

// Role is a member's role in its workload's own cluster.
type Role string

const (
	// RoleUnknown: the driver has not answered.
	RoleUnknown Role = "unknown"
	// RoleLeader leads.
	RoleLeader Role = "leader"
	// RoleFollower votes or can be promoted.
	RoleFollower Role = "follower"
	// RoleLearner does not vote.
	RoleLearner Role = "learner"
	// RoleNone: the workload has no roles.
	RoleNone Role = "none"
)

// Liveness is how a member's process answered its driver. Three observations differ: an answer, a
// refused connection and no answer. None of the last two proves at once that the process is down.
type Liveness string

const (
	// LivenessUnknown: no answer came in time; the zero value.
	LivenessUnknown Liveness = ""
	// LivenessAlive: the process answered, even with an error status or a refused login.
	LivenessAlive Liveness = "alive"
	// LivenessRefused: the host refused the connection, so that no process listens at the port.
	LivenessRefused Liveness = "refused"
)

// alive: the member's process answered its driver.
func (r *Report) alive() bool { return r.Liveness == LivenessAlive }

// Records holds the leader's earlier records, read back from the store.
type Records struct {
	// SpecIndex is the KV index of the spec.
	SpecIndex uint64
	// AppliedBy and AppliedRequest are the caller and the request of the current spec. A rollout that begins with it
	// records them.
	AppliedBy, AppliedRequest string

	Status    group.Status
	Slots     []group.SlotRecord
	Revisions map[string]group.RevisionRecord
	// Rollout is the current or last rollout; nil before the first.
	Rollout *operation.Rollout
	// Operations are all open Operations of the group and all of the current rollout. For each Slot they include the
	// newest Operations that moved or healed the Slot.
	Operations []operation.Operation
	Policies   map[string]policy.SlotPolicy
	// Policy is the group's: the order of its Revisions, the floor, the approvals. The zero value restricts nothing.
	Policy policy.GroupPolicy
	// NoValue are the secrets of the spec whose value an operator has yet to give: no Boot is admitted.
	NoValue []string
	// Problems are the operators' admission requests that could not be fulfilled.
	Problems []policy.Problem
}

// Source is the reliability of one source of an Observation. The zero value is a source that did not answer.
type Source struct {
	// Known: the source answered; an object missing from its listing does not exist.
	Known bool
	// Silent says why the source is not known, for people.
	Silent string
}

// Observation is everything seen in one pass, as a value. Its sources are kept apart: the platform, the records, and,
// by the reports' own times, each agent.
type Observation struct {
	// Platform listed the CVMs; Records: every record that decides could be read.
	Platform Source
	Records  Source
	// SilentNodes are the nodes that did not answer while the platform is known. Their CVMs are unknown, never gone.
	SilentNodes []string
	// At is when the platform was asked; no answer is older.
	At time.Time
	// Slots in any order; the plan does not depend on it.
	Slots []SlotObservation
	// Fleet counts the reporting agents of all groups.
	Fleet Fleet
	Places
	// Orphans are platform instances of this group that no Slot claims (R77).
	Orphans []string
	// Pause and Freeze are an operator's overrides in force on the group, or nil.
	Pause, Freeze *Override
	// Gates are the settings of gates of the group in force, by gate, or by gate/slot for a gate per Slot.
	Gates map[string]*Override
	// HoldOverrides are the operators' overrides of holds of this group, by hold.
	HoldOverrides map[string]*Override
	Order
	// Queue is nil while the cluster has no limits.
	Queue *Queue
	// Requests of operators about Slots and Operations of this group.
	Requests []Request
	// Deletion is set while an operator wants the whole group deleted.
	Deletion *Deletion
	// Refused maps a Revision to the reason why a step to it would fail. The platform would measure other content than
	// was judged, or does not offer a named resource. A missing Revision is not known to be refused. RefusedSize is the
	// key of a Slot's own size.
	Refused map[string]string
	// DeleteDisks are the Slots whose disk an operator gave up.
	DeleteDisks []string
	// Simulated is true when admissions happened under a root that is not Intel's.
	Simulated bool
}

// Complete reports that every source answered. New steps begin only in a complete observation (R11, R26).
func (o Observation) Complete() bool { return o.Platform.Known && o.Records.Known }

// Incomplete names the source that did not answer, for people.
func (o Observation) Incomplete() string {
	switch {
	case !o.Records.Known:
		return cmp.Or(o.Records.Silent, "a record cannot be read")
	case !o.Platform.Known:
		return cmp.Or(o.Platform.Silent, "the platform did not answer")
	}
	return ""
}

// Places are the platform's nodes, and the places of other groups' members.
type Places struct {
	// Nodes of the platform, in any order; empty: the platform names none.
	Nodes []placement.Node
	// Others are the groups that the spec's placement names.
	Others []placement.Other
}

// Order has the facts of other groups that the order among groups needs.
type Order struct {
	// Predecessors are the groups in the spec's `after`. A group that is missing here is not known yet.
	Predecessors []Predecessor
	// Cycle is the way along `after` back to the group; empty: there is none.
	Cycle []string
	// Followers are the groups that are `after` a group that is being deleted. Groups of its own cycle are left out.
	Followers []string
}

// Predecessor is a group that another one is `after`. Waits is why it has not finished its own work; "": it has.
type Predecessor struct{ Group, Waits string }

// Queue has the limits of the cluster, and the facts of all groups as far as the leader knows them.
type Queue struct {
	Limits queue.Limits
	Groups []queue.Group
	// Unread says why the record of the limits cannot be read: no limited work begins then.
	Unread string
}

// Instance is the platform's view of the one CVM that fills a Slot.
type Instance struct {
	VMUUID      string
	InstanceID  string
	AppID       string
	Name        string
	Status      string // as the platform reports it, in lower case
	InProgress  bool
	ComposeHash string
	Shape       operation.Shape
	BootError   string
	// Node is the id of the CVM's place on the platform; empty: unknown.
	Node string
	// UpdatedAt is the platform's own time of the last change; zero if it reports none.
	UpdatedAt time.Time
}

// Filling returns the CVM that fills a Slot among the CVMs with its name, and the duplicates (R67). The bound CVM
// fills the Slot if it is listed. found is sorted in place.
func Filling(bound string, found []Instance) (*Instance, []Instance) {
	if len(found) == 0 {
		return nil, nil
	}
	other := func(i Instance) int { return btoi(bound == "" || i.VMUUID != bound) }
	slices.SortFunc(found, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(other(a), other(b)), cmp.Compare(a.VMUUID, b.VMUUID))
	})
	return &found[0], found[1:]
}

// Running reports that the platform says the CVM runs and no task is in progress.
func (i *Instance) Running() bool { return i != nil && i.Status == "running" && !i.InProgress }

// Report is the agent's last report, already matched to the admitted Boot.
type Report struct {
	BootID string
	// ReceivedAt by the coordinator's clock; staleness is judged on it (R11).
	ReceivedAt time.Time
	// CutAt is when the last connection with reports of the Boot ended, by the same clock; zero while a connection is
	// open. A live agent connects again at once.
	CutAt  time.Time
	Health Health
	// HealthReason is the first failing or unknown check.
	HealthReason string
	// Failing are the names of the checks that certainly fail.
	Failing []string
	// Pending are the checks that came while the Boot ran and still wait for their first verdict: Health excludes them.
	Pending []string
	// AgentSpec is the Revision whose driver, hooks and checks the agent uses; empty: the agent does not report it.
	AgentSpec string
	// HealthyFor is the uninterrupted healthy interval that the agent proves.
	HealthyFor time.Duration
	BootAt     time.Time
	MemberView
	SetView
	// Faults are the agent's failures, for people; the agent still executes orders.
	Faults []string
	Steps  []StepReport
}

// MemberView is the driver's view of the member itself.
type MemberView struct {
	Role Role
	// MemberKnown: the driver has checked the process, so Liveness is the driver's answer.
	MemberKnown bool
	Liveness    Liveness
	MemberReady bool
	// CaughtUp: nil is unknown (R52).
	CaughtUp         *bool
	LagBytes         *int64
	Busy             []string
	MayDisrupt       bool
	MayDisruptReason string
	Message          string
	// Version of the server that runs, and of the data on its disk; empty: not known.
	Version    string
	DataFormat string
}

// SetView is the member's view of its workload's set: the leader, and the configuration that the member knows.
type SetView struct {
	// Leader is the Slot that this member sees leading.
	Leader string
	// Epoch: raft term or timeline.
	Epoch uint64
	// Voters are the voters in the member's own configuration (R43).
	Voters []string
	// Learners belong to the set without a vote, as the same configuration lists them.
	Learners []string
	// MemberIDs are the configuration's ids of the members, by their Slots. A member of an unknown Slot appears here,
	// and among the learners, under its VIP, or else under its id. MemberIDs is empty for workloads without such ids.
	MemberIDs map[string]string
	// Followers are the Slots that this member, which leads, sees following it now (R125).
	Followers []string
	// QuorumMember: the workload has a voter set, and this member answers for its own vote.
	QuorumMember bool
}

// StepReport is the agent's answer to one order of an Operation.
type StepReport = operation.StepReport

// Verb is the work that an Operation orders from the agent.
type Verb = operation.Verb

// StepState is how far an order got.
type StepState = operation.StepState

// The values of Verb and StepState, as in package operation.
const (
	VerbDrain          = operation.VerbDrain
	VerbCancelDrain    = operation.VerbCancelDrain
	VerbPostLaunch     = operation.VerbPostLaunch
	VerbRestartService = operation.VerbRestartService
	StepRunning        = operation.StepRunning
	StepDone           = operation.StepDone
	StepAborted        = operation.StepAborted
	StepHeld           = operation.StepHeld
	StepFailed         = operation.StepFailed
)

// SlotObservation joins the facts about one Slot.
type SlotObservation struct {
	Slot    string
	Ordinal int
	// Instance is nil when the platform lists none for the Slot.
	Instance *Instance
	// Duplicates are further instances with the Slot's name (R67).
	Duplicates []Instance
	// Admission is nil while no Boot holds the Slot.
	Admission *policy.Admission
	Refusal   *policy.Refusal
	// Report is nil when the admitted Boot has not reported.
	Report *Report
	// Drain, Protection and Exclusion are an operator's overrides in force on the Slot, or nil.
	Drain      *Override
	Protection *Override
	Exclusion  *Override
}

// overrides returns the fields of o for an operator's overrides of the group.
func (o *Observation) overrides() []**Override { return []**Override{&o.Pause, &o.Freeze} }

// overrides returns the fields of o for an operator's overrides of the Slot.
func (o *SlotObservation) overrides() []**Override {
	return []**Override{&o.Drain, &o.Protection, &o.Exclusion}
}

// stoppedWord reports that the platform's status is that of a CVM that stays down.
func stoppedWord(i *Instance) bool { return i.Status == "stopped" || i.Status == "exited" }

// Override is an operator's setting on a Slot, a group or the cluster, with its author, reason and end. The zero value
// means only that the override is set.
type Override struct {
	Reason string
	By     string
	// Until is when the override expires; zero: it stays until it is withdrawn.
	Until time.Time
	// Group is the frozen group; empty: all groups.
	Group string
	// Excludes is the kind of work that an exclusion withholds from the Slot.
	Excludes group.Exclusion
	// Rollout is the rollout that an override of a hold belongs to; empty: the time without a rollout.
	Rollout string
	// State and Ticket belong to a setting of a gate, as in its record.
	State, Ticket string
}

// Deletion is an operator's request to delete the whole group.
type Deletion struct {
	// KeepCVMs leaves the CVMs on the platform; otherwise they are deleted with their disks.
	KeepCVMs bool
	Reason   string
	By       string
}

// Request is an operator's request until its answer.
type Request struct {
	// ID is the caller's; it names the Operation that answers, so a repeated request has the effect of one (I17).
	ID   string
	Kind RequestKind
	// Slot is the Slot of a restart, update or replace; Operation is the Operation of a resolve.
	Slot string
	// Service, of a restart, is the service to restart; "": the CVM.
	Service   string
	Operation string
	// As is how a resolved Operation ended: "done" or "failed".
	As     string
	Reason string
	By     string
	// Rollout and Stage name the stage of a promotion. A request for a stage that is over has no effect on the next one.
	Rollout string
	Stage   int
	// VMUUID and InstanceID are the CVM of a restart, update or replace, as its Slot was bound at the request. "" means
	// the Slot's CVM at any time. Gone: the platform did not list the CVM.
	VMUUID     string
	InstanceID string
	Gone       bool
	// At is the time of the request.
	At time.Time
	// Spent: an Operation already carries the request's id, so no work is left.
	Spent bool
}

// RequestKind is the kind of an operator's request.
type RequestKind string

const (
	// RequestRestart asks for a restart of one Slot at its current Revision, or of only the given Service.
	RequestRestart RequestKind = "restart"
	// RequestUpdate asks for the immediate update of one Slot to its wanted Revision.
	RequestUpdate RequestKind = "update"
	// RequestReplace asks for another CVM, with an empty disk, for one Slot.
	RequestReplace RequestKind = "replace"
	// RequestResolve records how an Operation ended whose call has an unknown effect.
	RequestResolve RequestKind = "resolve"
	// RequestRetry lets a failed rollout go on.
	RequestRetry RequestKind = "retry"
	// RequestPromote promotes the named stage of the named rollout.
	RequestPromote RequestKind = "promote"
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Fleet summarises the reports of all groups' agents. A leader that receives few of them is more likely cut off
// itself than right about each agent (R120). The zero value carries no evidence.
type Fleet struct {
	// Expected agents: admitted Boots that sent no farewell and whose CVM is not known to be down. Heard: the
	// expected agents with a fresh report. A member that is drained, excluded from healing, or in a step that does
	// not heal counts as neither expected nor down.
	Expected, Heard int
	// Down counts the members whose CVM is known to be down or gone. Downs are the times of each such outage
	// (WentAt), where they are recorded.
	Down  int
	Downs [][]time.Time
	// Silences are the recorded starts of the agents' silences. An agent whose silence is not recorded yet is not
	// among them.
	Silences []time.Time
	// Unhealthy are the members of groups with healing that are not available, or are being healed. Three kinds are left
	// out: members whose CVM is down, members that an operator keeps away, and members in a step that does not
	// heal.
	Unhealthy []UnhealthyMember
	// RepairedAt is the start of the cluster's last repair that the limiter counts; zero: no repair is recorded.
	RepairedAt time.Time
}

// UnhealthyMember is a member that is not available. Since is the start of the outage. TriedAt is the start of its last repair
// that the limiter counts.
type UnhealthyMember struct {
	Slot           string
	Since, TriedAt time.Time
}

// compare is the order of repairs: the member whose last repair is longest ago comes first.
func (i UnhealthyMember) compare(other UnhealthyMember) int {
	return cmp.Or(i.TriedAt.Compare(other.TriedAt), i.Since.Compare(other.Since), cmp.Compare(i.Slot, other.Slot))
}
