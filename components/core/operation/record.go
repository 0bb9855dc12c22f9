package operation

import (
	"cmp"
	"time"
)

// Request names the caller of a step and the reason.
type Request struct {
	// ID is the operator's request that the step answers; "": the step answers no request.
	ID string `json:"id,omitempty"`
	// Note is the caller's reason, or the fault that the step heals; By is the caller.
	Note string `json:"note,omitempty"`
	By   string `json:"by,omitempty"`
	// ResolvedBy is the request by which an operator recorded the outcome of a call of the step.
	ResolvedBy string `json:"resolved_by,omitempty"`
}

// Overridden is a hold that an operator's override passed when the step began (R141).
type Overridden struct {
	// Hold is the name of the hold.
	Hold   string `json:"hold"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// CVM names the one CVM that a step may touch (R63). An empty name is unknown, or the CVM is not made yet.
type CVM struct {
	VMUUID     string `json:"vm_uuid,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	// Incarnation is the number of the CVM that a Replace makes for the Slot.
	Incarnation uint64 `json:"incarnation,omitempty"`
}

// Named returns c with its missing names filled in.
func (c CVM) Named(vmUUID, instanceID string) CVM {
	c.VMUUID, c.InstanceID = cmp.Or(c.VMUUID, vmUUID), cmp.Or(c.InstanceID, instanceID)
	return c
}

// unnamed returns c without names: the names recorded next are the next CVM's.
func (c CVM) unnamed() CVM { return CVM{Incarnation: c.Incarnation} }

// replaced reports that the platform shows another CVM than c (R63).
func (c CVM) replaced(p *PlatformView) bool {
	return p != nil && (differs(p.VMUUID, c.VMUUID) || differs(p.InstanceID, c.InstanceID))
}

// differs: both values are known, and they are not the same.
func differs[T comparable](seen, wanted T) bool {
	var zero T
	return wanted != zero && seen != wanted && seen != zero
}

// gone reports that the platform does not list the CVM, or lists another CVM in its place.
func (c CVM) gone(p *PlatformView) bool { return p == nil || c.replaced(p) }

// atRest reports that the platform lists the CVM, and has no task in progress on it.
func (c CVM) atRest(p *PlatformView) bool { return !c.gone(p) && !p.InProgress }

// admits reports that the admitted Boot is one of the named CVM, as far as the CVM's Instance is known.
func (c CVM) admits(a *AdmissionView) bool {
	return a != nil && (c.InstanceID == "" || a.InstanceID == c.InstanceID)
}

// Mode is a step's effect on the Boot. The modes exclude each other.
type Mode string

const (
	// ModeBoot: a new Boot comes, unless Way.Service is set. The zero value reads as this.
	ModeBoot Mode = ""
	// ModeRefresh, of an Update: only the agent's own work differs between To and the present Revision.
	// The Boot stays and attests again, at To, without a drain or a platform call.
	ModeRefresh Mode = "refresh"
	// ModeOwn, of an Update: the step gives the Slot its own env values or size, at its present Revision. The word is
	// that of the first such setting, which older coordinators read.
	ModeOwn Mode = "env"
	// ModeForce, of a Restart of a CVM: the platform stops the guest without asking. The last restart asked the guest
	// and brought no boot.
	ModeForce Mode = "force"
)

// Way is how a step is made.
type Way struct {
	Mode Mode `json:"mode,omitempty"`
	// Service, of a Restart, is the service whose workload the agent ends and starts again. The CVM and its Boot stay,
	// and the platform is not called. "": the CVM restarts.
	Service string `json:"service,omitempty"`
	// SkipDrain: the member is unavailable, so there is nothing to drain.
	SkipDrain bool `json:"skip_drain,omitempty"`
}

// Refreshes reports that the Boot attests again and nothing else happens.
func (w Way) Refreshes() bool { return w.Mode == ModeRefresh }

// drains: an existing agent drains before the step acts.
func (w Way) drains() bool { return !w.SkipDrain && !w.Refreshes() }

// BootStays reports that the step ends with the same Boot as before.
func (w Way) BootStays() bool { return w.Mode == ModeRefresh || w.Service != "" }

// Before is the state before a step: as its decision saw it, and the Boot that held the Slot when the step acted.
type Before struct {
	// BootID is the Boot that held the Slot when the last call was issued, or, before a call, when the step was
	// recorded. A later admission must name another Boot.
	BootID string `json:"boot_id,omitempty"`
	// Unavailable: the Slot was already down when the step was decided, so the step reduced availability no further
	// (R21).
	Unavailable bool `json:"unavailable,omitempty"`
	// Down: at the decision the platform reported that no CVM of the Slot ran.
	Down bool `json:"down,omitempty"`
	// Shared: other members were unhealthy too when the start of a down member was decided.
	Shared bool `json:"shared,omitempty"`
	// Stopped: at the step's first call the platform reported that the CVM stays down. If the platform still reports
	// this after the last call, an Update starts the CVM.
	Stopped bool `json:"stopped,omitempty"`
	// Quorum is the arithmetic that admitted the step, or holds it, for people.
	Quorum string `json:"quorum,omitempty"`
	// PendingBoot is the Revision that an earlier call gave to the CVM, if no Boot had shown it when To was decided.
	PendingBoot PendingBoot `json:"pending_boot,omitzero"`
}

// PendingBoot is a Revision that a call gave to a CVM, the Boot that the call ends, and the time of the call.
type PendingBoot struct {
	To     string    `json:"to_revision,omitempty"`
	BootID string    `json:"boot_id,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Is reports that boot was the Boot before the step.
func (b Before) Is(boot string) bool { return b.BootID != "" && b.BootID == boot }

// Set is a step's effect on the workload's set of members.
type Set struct {
	// Joins: the new CVM joins the existing set.
	Joins bool `json:"joins,omitempty"`
	// Leaves: the other members of the set must remove the Slot from it.
	Leaves bool `json:"leaves,omitempty"`
	// LeavesAs is the name by which the set knew the member when that was recorded (group.SetChange). A later member
	// under the Slot's name stays.
	LeavesAs string `json:"leaves_as,omitempty"`
}

// Seen holds since when the step's CVM was seen in a state.
type Seen struct {
	// GoneSince is when a listing first lacked the CVM or showed another CVM. A second such listing ends the Operation.
	// Zero while the CVM is listed.
	GoneSince time.Time `json:"gone_since,omitzero"`
	// RunningSince is when the platform first reported that the CVM runs the state that the call requested.
	RunningSince time.Time `json:"running_since,omitzero"`
	// AvailableSince is when every condition except min_ready held (R8).
	AvailableSince time.Time `json:"available_since,omitzero"`
}

// missing records whether the listing at the given time lacks the CVM. It reports true if an earlier listing lacked
// the CVM too, and none between showed it.
func (s *Seen) missing(missed bool, at time.Time) (twice bool) {
	switch {
	case !missed:
		s.GoneSince = time.Time{}
		return false
	case s.GoneSince.IsZero():
		s.GoneSince = at
	}
	return at.After(s.GoneSince)
}

// Outage brackets the time in which the Slot could not serve. From is zero without an outage, Until is zero during it.
type Outage struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// begin records that the Slot does not serve from now on, unless an outage is already open.
func (o *Outage) begin(now time.Time) {
	if o.From.IsZero() {
		o.From = now
	}
}

// end records the end of an open outage.
func (o *Outage) end(at time.Time) {
	if !o.From.IsZero() {
		o.Until = at
	}
}

// Times are the begin and end of a step, and its deadlines. The deadlines are absolute, so that a takeover does not
// restart them.
type Times struct {
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
	// DrainBy is the deadline for the drain, and for an unsafe step to become safe.
	DrainBy time.Time `json:"drain_by,omitzero"`
	// HealthyBy is when the Slot has to be available (R87).
	HealthyBy time.Time `json:"healthy_by,omitzero"`
}
