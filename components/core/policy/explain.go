package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is the admission state of a Slot, in one word.
type State string

const (
	// StateNone: no Boot holds the Slot.
	StateNone State = "none"
	// StateAdmitted: a Boot holds it and would keep it.
	StateAdmitted State = "admitted"
	// StateReattest: a Boot holds the Slot and must show new evidence.
	StateReattest State = "re-attest"
	// StateDenied: a Boot holds it whose credentials will not be renewed.
	StateDenied State = "denied"
	// StateExpired: its credentials ended.
	StateExpired State = "expired"
)

// AdmissionStatus is one Slot's admission: its holder, the evidence, and the expiry.
type AdmissionStatus struct {
	Group string `json:"group"`
	Slot  string `json:"slot"`
	State State  `json:"state"`
	// Code and Why name the problem; empty: none.
	Code       Code   `json:"code,omitempty"`
	Why        string `json:"why,omitempty"`
	BootID     string `json:"boot_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	Revision   string `json:"revision,omitempty"`
	// Number of the Revision, shown as #7; 0: not numbered.
	Number     uint64    `json:"number,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	AdmittedAt time.Time `json:"admitted_at,omitzero"`
	AttestedAt time.Time `json:"attested_at,omitzero"`
	// ReattestBy is when credentials are not renewed any more without new evidence.
	ReattestBy time.Time `json:"reattest_by,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	// TCBStatus in Intel's words; "not evaluated" without collateral.
	TCBStatus string `json:"tcb_status,omitempty"`
	// TCBEnds is when the Boot is refused for its TCB; zero: no such end is known.
	TCBEnds time.Time `json:"tcb_ends,omitzero"`
	// TCBReplacedAt is the signed date on which the machine's level stopped being the newest.
	TCBReplacedAt time.Time `json:"tcb_replaced_at,omitzero"`
	// TCBOutOfDateSoon: UpToDate now, and not so by Intel's early set. TCBOutOfDateAt is about when the
	// standard set will follow; zero: the signed dates do not say.
	TCBOutOfDateSoon bool      `json:"tcb_out_of_date_soon,omitempty"`
	TCBOutOfDateAt   time.Time `json:"tcb_out_of_date_at,omitzero"`
	// Machine is the keyed hash of the machine that the Slot's Instance showed last, 64 hex digits;
	// empty: not known. MachineBefore is the one before, until MachineSince.
	Machine       string    `json:"machine,omitempty"`
	MachineBefore string    `json:"machine_before,omitempty"`
	MachineSince  time.Time `json:"machine_since,omitzero"`
	// SharesMachine are the other Slots of the group whose Instances showed the same machine last.
	SharesMachine []string `json:"shares_machine,omitempty"`
	// Simulated: the evidence is under a root that is not Intel's.
	Simulated bool `json:"simulated,omitempty"`
	// Contest is about Boots that take the Slot from each other.
	Contest Contest `json:"contest,omitzero"`
	// Last is the newest decision about the Slot.
	Last *DecisionEntry `json:"last_decision,omitempty"`
}

// AllowedNow is one Revision that the Slot's policy names, with the verdict on it.
type AllowedNow struct {
	AllowedRevision
	// Revision's own number, which may be higher than that of its content.
	Own uint64 `json:"own_number,omitempty"`
	// Code and Message say why it is not admitted all the same; empty: it is.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Approval that counts for it.
	Approval *Approval `json:"approval,omitempty"`
}

// Explanation is everything about one Slot's admission.
type Explanation struct {
	AdmissionStatus
	// Checks are the checks of the last decision, of ChecksBootID at ChecksAt.
	Checks       []Check   `json:"checks,omitempty"`
	ChecksBootID string    `json:"checks_boot_id,omitempty"`
	ChecksAt     time.Time `json:"checks_at,omitzero"`
	// Now judges the present evidence under the present policy.
	Now []Finding `json:"now,omitempty"`
	// Allowed Revisions of the Slot. Only BoundInstance may prove them.
	Allowed       []AllowedNow `json:"allowed"`
	BoundInstance string       `json:"bound_instance,omitempty"`
	PolicyEpoch   uint64       `json:"policy_epoch"`
	// The operators' settings that apply to the Slot.
	RequireApproval bool          `json:"require_approval,omitempty"`
	Floor           AcceptedFloor `json:"floor,omitzero"`
	Approvals       []Approval    `json:"approvals,omitempty"`
	Revocations     []Revocation  `json:"revocations,omitempty"`
	// Decisions, newest first. ChainProblem says where their chain is broken.
	Decisions    []DecisionEntry `json:"decisions,omitempty"`
	ChainProblem string          `json:"chain_problem,omitempty"`
	// Refusal is the last recorded refusal, also of a request without genuine evidence.
	Refusal *Refusal `json:"last_refusal,omitempty"`
	// Next lists the operator's possible actions.
	Next []string `json:"next,omitempty"`
}

// Facts are the records that an Explanation is made of.
type Facts struct {
	Group, Slot string
	// Admission is nil while no Boot holds the Slot.
	Admission *Admission
	// Policy of the Slot with all revocations in it.
	Policy    SlotPolicy
	Gate      GroupPolicy
	Images    ImagePolicy
	Decisions Decisions
	Refusal   *Refusal
	// Machine of the Slot, and the other Slots of the group on it; its zero value: not known.
	Machine MachineRecord
	Sharing []string
}

// StatusOf returns the Slot's admission status at now.
func StatusOf(f Facts, now time.Time) AdmissionStatus {
	s := AdmissionStatus{Group: f.Group, Slot: f.Slot, State: StateNone, InstanceID: f.Policy.InstanceID}
	if last := f.Decisions.Last(); last.Number > 0 {
		s.Last = &last
	}
	if f.Machine.Of(f.Policy.InstanceID) {
		s.Machine, s.MachineBefore, s.MachineSince, s.SharesMachine = f.Machine.Machine, f.Machine.Before, f.Machine.Since, f.Sharing
	}
	a := f.Admission
	if a == nil || a.BootID == "" {
		s.Code, s.Why = f.lastRefusal(time.Time{})
		return s
	}
	s.BootID, s.InstanceID, s.Revision, s.Generation = a.BootID, a.InstanceID, a.Revision, a.Generation
	s.Number, s.Contest = f.Gate.Number(a.Revision), a.Contest
	s.AdmittedAt, s.AttestedAt, s.ExpiresAt = a.AdmittedAt, a.AttestedAt, a.ExpiresAt
	if !a.AttestedAt.IsZero() {
		s.ReattestBy = a.AttestedAt.Add(ReattestAfter)
	}
	s.machine(a.Claims.TCB, f.Images.TCB, now)
	s.Simulated = a.Simulated || a.Claims.Simulated
	d := Barred(*a, f.Policy)
	if d.Code == "" {
		d = MayRenew(*a, f.Policy, f.Images, now)
	}
	switch {
	case !now.Before(a.ExpiresAt) && !a.ExpiresAt.IsZero():
		s.State, s.Code, s.Why = StateExpired, CodeSVIDExpired, "the credentials ended"
	case d.Code == "" && a.Contest.Reserved():
		// The holder stays; the alarm is that no other Boot is admitted.
		s.State, s.Code, s.Why = StateAdmitted, CodeInstanceConflict, a.Contest.Why(a.Slot)
	case d.Code == "":
		s.State = StateAdmitted
	case d.Code == CodeReattestRequired:
		s.State, s.Code, s.Why = StateReattest, d.Code, d.Message
	default:
		s.State, s.Code, s.Why = StateDenied, d.Code, d.Message
	}
	return s
}

// MachineStatus is the line of a member that proved itself just now and is accepted under p: a
// coordinator, which no coordinator admits. Only the machine's fields are judged.
func MachineStatus(slot, instanceID string, tcb TCB, p TCBPolicy, now time.Time) AdmissionStatus {
	s := AdmissionStatus{Slot: slot, State: StateAdmitted, InstanceID: instanceID, AttestedAt: now}
	s.machine(tcb, p, now)
	return s
}

// machine fills in the known end of the machine's TCB state.
func (s *AdmissionStatus) machine(tcb TCB, p TCBPolicy, now time.Time) {
	s.TCBStatus = cmp.Or(tcb.Status, "not evaluated")
	s.TCBEnds, s.TCBReplacedAt = p.ToleratedUntil(tcb, now), tcb.ReplacedAt
	outlook := tcb.Outlook()
	s.TCBOutOfDateSoon, s.TCBOutOfDateAt = outlook.Falls, outlook.At
}

// lastRefusal is the newest no after a moment.
func (f Facts) lastRefusal(after time.Time) (Code, string) {
	var at time.Time
	var code Code
	var why string
	if last := f.Decisions.Last(); last.Code != "" && last.At.After(after) {
		at, code, why = last.At, last.Code, last.Message
	}
	if r := f.Refusal; r != nil && r.At.After(after) && r.At.After(at) {
		code, why = r.Code, r.Message
	}
	return code, why
}

// Explain is the whole picture at now.
func Explain(f Facts, now time.Time) Explanation {
	e := Explanation{
		AdmissionStatus: StatusOf(f, now), Checks: f.Decisions.Checks, ChecksBootID: f.Decisions.ChecksBootID, ChecksAt: f.Decisions.ChecksAt,
		BoundInstance: f.Policy.InstanceID, PolicyEpoch: f.Policy.Epoch, RequireApproval: f.Policy.RequireApproval, Floor: f.Gate.Floor,
		Revocations: f.Policy.Revoked, Refusal: f.Refusal, Allowed: []AllowedNow{},
	}
	if f.Admission != nil {
		e.Now = Findings(*f.Admission, f.Policy, f.Images, now)
	}
	for _, a := range f.Policy.Allowed {
		one := AllowedNow{AllowedRevision: a, Own: f.Gate.Number(a.Revision)}
		if d := barred(f.Policy, a); d.Code != "" {
			one.Code, one.Message = d.Code, d.Message
		}
		for _, id := range []string{a.Revision, normalHash(a.ComposeHash)} {
			if approval, ok := f.Gate.Approvals[id]; ok && one.Approval == nil {
				one.Approval = &approval
				e.Approvals = append(e.Approvals, approval)
			}
		}
		e.Allowed = append(e.Allowed, one)
	}
	e.Decisions = f.Decisions.All()
	slices.Reverse(e.Decisions)
	if err := f.Decisions.Verify(); err != nil {
		e.ChainProblem = err.Error()
	}
	code := e.Code
	if code == "" && f.Admission != nil {
		// The Boot that holds the Slot would be admitted; a later Boot was refused.
		code, _ = f.lastRefusal(f.Admission.AdmittedAt)
	}
	e.Next = e.next(code)
	return e
}

// next lists the operator's actions against a problem of this code.
func (e Explanation) next(code Code) []string {
	revision := e.Revision
	for _, a := range slices.Backward(e.Allowed) {
		if a.Code != "" && (revision == "" || a.Code == code) {
			revision = a.Revision
			break
		}
	}
	var out []string
	switch code {
	case "":
	case CodeRevisionNotApproved:
		out = append(out, fmt.Sprintf("look at the revision, then `cadre admission approve %.8s`", revision))
	case CodeRevisionBelowFloor:
		out = append(out, "roll out a newer revision: `cadre group apply FILE`; a floor never falls")
	case CodePeerRevoked:
		out = append(out,
			fmt.Sprintf("if the instance is sound after all: `cadre admission unrevoke instance %s`", e.BoundInstance),
			"otherwise have the slot filled again: delete its CVM on the platform (with its disk), then the slot's record")
	case CodeKMSPolicyMismatch:
		out = append(out, "have the CVM made with the pinned key provider; if the provider was revoked by mistake: `cadre admission unrevoke key-provider ID`")
	case CodeRevisionNotAllowed:
		out = append(out, fmt.Sprintf("`cadre rollout status %s` says which revision the slot is to run; if one was revoked by mistake: `cadre admission unrevoke revision ID`", e.Group))
	case CodeReattestRequired:
		out = append(out, "nothing: the agent shows new evidence automatically; if it does not, look at its log")
	case CodeTCBOutOfDate, CodeTCBAdvisoryBlocked:
		out = append(out, "have the host updated, or give it time in the trust file: `tcb.grace_days`, or an exception with an expiry; where it allows that, `cadre admission tcb grant` does it at once")
	case CodeMachineShared:
		out = append(out, fmt.Sprintf("`cadre admission list %s -o json` names the machine of each member; `cadre instance replace %s` makes the instance again, on another machine where the placement chooses one", e.Group, e.Slot))
	case CodeMachineNotListed:
		out = append(out, fmt.Sprintf("add the machine to placement.machines of group %s, or make the instance on a listed machine: `cadre instance replace %s`", e.Group, e.Slot))
	case CodeMachineUnknown:
		out = append(out, "nothing, where a neighbour's machine is not recorded: its agent attests again within minutes; otherwise use a machine whose PCK certificate names it")
	case CodeMachineChanged:
		out = append(out, "nothing, if the host was registered again or you moved the CVM; otherwise find out who moved it: docs/reference/admission.md#machines")
	case CodeInstanceConflict, CodeIncarnationStale:
		if e.Contest.Reserved() {
			out = append(out, fmt.Sprintf("have the platform show that one CVM of the instance runs, then `cadre admission clear-conflict %s`", e.Slot))
		}
		out = append(out, fmt.Sprintf("find out why two boots claim the slot; `cadre admission revoke instance %s` shuts both out", e.BoundInstance))
	default:
		out = append(out, "the coordinators' logs have the whole story; the code is explained in docs/reference/reason-codes.md")
	}
	for _, a := range e.Allowed {
		if a.Code == CodeRevisionNotApproved && code != CodeRevisionNotApproved {
			out = append(out, fmt.Sprintf("revision %.8s waits: `cadre admission approve %.8s`", a.Revision, a.Revision))
		}
	}
	if e.ChainProblem != "" {
		out = append(out, "the decisions of the slot were edited: compare them with the coordinators' logs, which carry each digest")
	}
	return out
}
