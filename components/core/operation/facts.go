package operation

import (
	"cmp"
	"time"
)

// Facts holds all known facts about an open Operation at one instant, as a value. The zero value advances only steps
// that need no fact.
type Facts struct {
	// Term is the calling leader's. A term older than the record's is fenced (R61).
	Term uint64
	// Steps are the agent's answers, in any order; foreign answers are ignored (R81).
	Steps []StepReport

	// PlatformKnown: the platform answered its listing. Platform is its view of the Slot's CVM, or nil if it lists no
	// such CVM.
	// Unlisted is why the platform's view of the Slot is not known, if it is known why.
	PlatformKnown bool
	Unlisted      string
	Platform      *PlatformView
	// Duplicates counts further CVMs under the Slot's name (R67).
	Duplicates int
	// NotOn are the nodes without an answer that certainly have no CVM under the Slot's name.
	NotOn []string
	// ObservedAt is when the platform was asked.
	ObservedAt time.Time
	// WantedHash is the compose hash of To; empty when not known.
	WantedHash string
	Content

	// Admission is the Boot that holds the Slot, or nil.
	Admission *AdmissionView
	// Refusal is the last refused admission of the Slot.
	Refusal *RefusalView
	// LastReportOf and LastReportAt name the Boot of the last report, and its time.
	LastReportOf string
	LastReportAt time.Time
	Readiness
	Leadership
	Belonging
	Placing

	// Safe is the verdict of the precommit check of quorum and roles (R50).
	Safe       bool
	SafeReason string
	// Refused is why the platform would refuse the call: waiting for the call is useless. Unmet: a refusal makes the
	// step unsafe, or the platform's answer is not known yet (R74).
	Refused string
	Unmet   bool
	Will

	// StopFirst: the platform changes a stopped CVM only, and starts none (platform.Habits).
	StopFirst bool
	// Task is the platform's record of the change that the last call began, or nil if no task is known.
	Task *Task
	// Call is the answer to the call numbered Call.Number, once it arrived.
	Call *CallResult

	Limits Limits
}

// Readiness is the progress of the member towards availability, or out of service.
type Readiness struct {
	// ReadySince is when the Slot became available except for min_ready; zero means that it is not. ReadyReason names
	// the missing condition (R7, R8).
	ReadySince  time.Time
	ReadyReason string
	// Unjudged is why the member's health does not reflect the checks of To yet; empty if it does.
	Unjudged string
	// AwaitsQuorum: the member runs, and only the missing quorum keeps it from being available. Only steps of other
	// Slots restore the quorum, so the wait would never end.
	AwaitsQuorum bool
	// NotServing: the member already gave up its duties during the drain.
	NotServing bool
	// Gone: the Boot does not report, and its instance proved that it runs another Boot.
	Gone bool
}

// Belonging is the membership record of the member in the workload's own set.
type Belonging struct {
	// Set is the member's state in the workload's set. LeavesAlive: the member leaves the set before its CVM is deleted,
	// not after.
	Set         SetWord
	LeavesAlive bool
	// Member is the name by which the set knows the member; empty if no member reports it.
	Member string
}

// Leadership is the member's leadership and the possible successors.
type Leadership struct {
	// Leads: the member leads, by its own report or by that of its followers, and its workload can hand leadership over.
	Leads bool
	// HandOver is the hand-over for a member that leads again, while drained or between two parts of a change. nil: the
	// member follows, or it has no successor.
	HandOver *Transfer
}

// Content is the difference between From and To, and between the CVM's last values and its wanted values.
type Content struct {
	// WantedShape is the shape of To, with the Slot's own size. OwnInstanceType is that size; "": To's.
	WantedShape     Shape
	OwnInstanceType string
	// OwnEnv names the Slot's own env values at To. GivenEnv names the values that its CVM received last.
	OwnEnv, GivenEnv string
	// EnvDiffers: the templates of From and To have other env.
	EnvDiffers bool

	// NewImages are the images of To that From does not have, while the step waits for its boot: the CVM has to pull
	// them.
	NewImages []string
	// Unread says that the server of To may not open the data of the disk, while the step waits for the member; empty:
	// nothing suggests that.
	Unread string
	// PostLaunch: the spec has POST_LAUNCH hooks to wait for.
	PostLaunch bool
}

// Will is the current wish of the operators and the spec for the Operation.
type Will struct {
	// Unwanted is why the Operation is no longer wanted; empty if it is wanted.
	Unwanted string
	// Elsewhere: the Slot's wanted Revision is not To, or the Slot is to go.
	Elsewhere bool
	// Paused: the group is paused or frozen. PausedBy says which of the two, by which caller and why, if known.
	Paused   bool
	PausedBy string
	// Ending: the whole group is being deleted.
	Ending bool
	// Resolved is an operator's decision about the Operation, or nil.
	Resolved *Resolution
}

// stopped returns why a paused Operation does not act.
func (f Facts) stopped() string { return "called off before acting: " + cmp.Or(f.PausedBy, "paused") }

// unsafe returns the Cause of a step that is called off because it never became safe.
func (f Facts) unsafe() Cause {
	if f.Unmet {
		return CausePrecondition
	}
	return CauseUnsafe
}

// PlatformView is the platform's view of one CVM. It is never evidence of the software that runs.
type PlatformView struct {
	VMUUID      string
	InstanceID  string
	Running     bool // stable: running and no task in progress
	InProgress  bool
	Stuck       bool // in progress for longer than a boot may take: no longer awaited
	Stopped     bool // the platform says that the CVM stays down until it is started
	ComposeHash string
	Shape       Shape
	BootError   string
	UpdatedAt   time.Time
	// Former: the Slot had this CVM before, and has another CVM now.
	Former bool
	// Unbound: no record binds the CVM to the Slot, and another client made the CVM.
	Unbound bool
}

// Resolution is an operator's decision about an Operation that the records alone cannot end.
type Resolution struct {
	// ID of the request.
	ID string
	// As is Done if the effect exists, or Failed if the effect is absent for good.
	As     Phase
	By     string
	Reason string
}

// AdmissionView is the Boot that holds the Slot: proven by attestation (R4).
type AdmissionView struct {
	BootID     string
	Revision   string
	InstanceID string
}

// RefusalView is a refused admission.
type RefusalView struct {
	Code    string
	Message string
	// Proven: the refused Boot runs on the Slot's own CVM.
	Proven bool
	At     time.Time
}

// Text formats the refusal for people. An unproven refusal may concern any caller, and the text says so.
func (r RefusalView) Text() string {
	if r.Proven {
		return "admission refused: " + r.Code + ": " + r.Message
	}
	return "refused a boot that did not prove to be of this CVM: " + r.Code + ": " + r.Message
}

// CallResult is the answer to one platform call.
type CallResult struct {
	// Number is the number of the answered Call.
	Number      int
	Outcome     Outcome
	Message     string
	Correlation string
	// OSImage: a call for the resources changed the image too.
	OSImage bool
	// VMUUID and InstanceID of a created CVM.
	VMUUID     string
	InstanceID string
}

// Task is the platform's record of an accepted change. It proves the outcome of a call, never the software that runs.
type Task struct {
	Correlation string
	InProgress  bool
	// Failed is the reason of a failure; empty if the task did not fail.
	Failed string
}

// Limits are the times that apply, from the spec and the engine's Timing.
type Limits struct {
	Drain   time.Duration
	Healthy time.Duration
	// Service replaces Healthy when only a service is restarted.
	Service  time.Duration
	MinReady time.Duration
	// Settle is how long after a call its effect may still appear, as the driver states it: minutes on a real platform
	// (R66).
	Settle time.Duration
	// Unknown is when an undecided call is reported as stuck (R66).
	Unknown time.Duration
}

// EffectKind is the kind of effect that the shell performs after it recorded the Operation.
type EffectKind string

const (
	// SendOrder wakes the agent, which then reads CurrentOrder. Losing it is harmless.
	SendOrder EffectKind = "SEND_ORDER"
	// CallPlatform makes the one platform call of the Operation's Kind.
	CallPlatform EffectKind = "CALL_PLATFORM"
)

// Effect is one thing to do after the returned Operation was recorded, never
// before (R60). It names exactly one CVM (R63, R64).
type Effect struct {
	Kind EffectKind
	// Verb of a SendOrder: VerbCancelDrain returns the member to service (R82).
	Verb Verb
	// Call is the part to request from the platform.
	Call Part
	// Force: the platform stops the guest without asking it to shut down.
	Force bool
	// Shape is the new shape; an unchanged field is zero.
	Shape Shape
	// VMUUID and InstanceID name the CVM; empty for Create.
	VMUUID     string
	InstanceID string
	// NotOn, of a create, are the nodes without an answer that certainly have no CVM of the Slot.
	NotOn []string
	// Number of the call, to be handed back in CallResult.
	Number int
}

// SetWord is a member's state in the workload's own set.
type SetWord string

const (
	// SetUnasked: the coordinator does not manage the set of such a workload.
	SetUnasked SetWord = ""
	// SetListed: the set lists the member, with a vote or without.
	SetListed SetWord = "listed"
	// SetAbsent: the set does not list the member.
	SetAbsent SetWord = "absent"
	// SetUnknown: the members do not report their set, or their reports differ.
	SetUnknown SetWord = "unknown"
)

// Outcome of a platform call (R65). The zero value reads as undecided.
type Outcome string

const (
	// OutcomeDone: the platform accepted the call.
	OutcomeDone Outcome = "done"
	// OutcomeRefused: the call certainly had no effect, and a repetition would be useless.
	OutcomeRefused Outcome = "failed"
	// OutcomeBusy: the call certainly had no effect. The platform is busy or throttles; the call is repeated later
	// (R73).
	OutcomeBusy Outcome = "busy"
	// OutcomeNotMade: the call was not sent, because the last check before it refused. The outcome also stands for an
	// unanswered call whose read-back proved that it had no effect.
	OutcomeNotMade Outcome = "not_made"
	// OutcomeUnknown: time-out, connection reset or 5xx; a read-back decides (R66).
	OutcomeUnknown Outcome = "unknown"
)

// Verb is the work that an Operation orders from the agent.
type Verb string

const (
	// VerbDrain prepares for the stop.
	VerbDrain Verb = "drain"
	// VerbCancelDrain returns the member to service.
	VerbCancelDrain Verb = "cancel_drain"
	// VerbPostLaunch runs POST_LAUNCH hooks.
	VerbPostLaunch Verb = "post_launch"
	// VerbRestartService ends the workload of one service and starts it again.
	VerbRestartService Verb = "restart_service"
)

// StepState is the progress of an order.
type StepState string

const (
	// StepRunning: at work, heartbeating.
	StepRunning StepState = "running"
	// StepDone: finished.
	StepDone StepState = "done"
	// StepAborted: a hook answered ABANDON.
	StepAborted StepState = "aborted"
	// StepHeld: a hook answered HOLD.
	StepHeld StepState = "held"
	// StepFailed: the agent could not carry out the order.
	StepFailed StepState = "failed"
)

// StepReport is the agent's answer to one order of an Operation.
type StepReport struct {
	Operation   string
	Verb        Verb
	Attempt     int
	State       StepState
	Message     string
	Transferred bool
	NewLeader   string
}
