package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
	"cadre.dev/core/policy"
	"cadre.dev/core/queue"
	"cadre.dev/core/upgrade"
	"cadre.dev/core/window"
)

// world is the input of one pass, joined by Slot and put in order. Later code sees the same order for any order of the
// input (R1).
type world struct {
	spec group.Spec
	rec  Records
	obs  Observation
	now  time.Time
	t    Timing

	// asked is the Revision of the operator's spec. target is the Revision that the group moves to now, and spec has its
	// content: during a rollback an earlier Revision's.
	asked      string
	target     string
	stable     string
	generation uint64
	failedRevs []string
	rollout    *operation.Rollout
	superseded *operation.Rollout
	// judged holds the policy's decisions about Revisions in this pass.
	judged map[string]policy.Decision
	// moves are the differences between Revisions that this pass compared.
	moves map[move][]group.Change
	// seenBy holds the observation of each Slot by ordinal, built on demand.
	seenBy map[int]*SlotObservation

	// members are the desired Slots by ordinal. terminating are the Slots to remove, highest first. everyone is both.
	members     []*member
	terminating []*member
	everyone    []*member
	bySlot      map[string]*member
	tally       tally
	view        view
	// founders are the Slots that bootstrap the workload's set, while the bootstrap may go on.
	founders []string
	appID    string
	// retry is the operator's request to continue a failed rollout, or a refused step.
	retry *Request
	// promote is the operator's request to promote a stage.
	promote *Request
	found   found
}

// found holds answers that many members need, computed once for all.
type found struct {
	// leaders counts, by Slot, the members that live and name it as their leader.
	leaders once[map[string]int]
	// terminating is the member that is removed first. givenUp are the Slots whose disk an operator gave up.
	terminating once[*member]
	givenUp     once[map[string]bool]
	// grant is the work that the limits of the cluster let the group begin.
	grant once[queue.Grant]
	// versions are the versions that Revisions name.
	versions map[string][]upgrade.Target
	// opening is the next opening of a window of the spec.
	opening once[opening]
	// proven is the Revision for a new Slot until a member has proven the target.
	proven once[string]
}

// judgements are such answers that depend on the rollout's Operations, as the tally does: retally drops both.
type judgements struct {
	// bucket is the token bucket of the group's limiter.
	bucket once[bucket]
	// waits: the rollout waits only for its workload's permission or an operator's decision.
	waits once[bool]
	// surge is the reason why each step that extra members are for waits; "": a step may begin.
	surge once[string]
	// board has the places of the members. turn is the failure domain that is updated now.
	board once[*places]
	turn  once[turn]
	// stage is the open stage.
	stage once[stage]
	// tolerated are the Slots without which the rollout goes on (R100).
	tolerated once[[]*member]
}

// once is a value that is computed on the first request.
type once[T any] struct {
	value T
	known bool
}

func (o *once[T]) of(work func() T) T {
	if !o.known {
		o.value, o.known = work(), true
	}
	return o.value
}

// member is one Slot of the pass.
type member struct {
	slot    string
	ordinal int
	record  group.SlotRecord
	// wasAvailableAt is the record's value before this pass.
	wasAvailableAt string
	// boundBefore is the CVM that the record named before this pass.
	boundBefore string
	seen        SlotObservation
	// want is the Slot's wanted Revision.
	want want
	// report is the fresh report of the admitted Boot, or nil (R11).
	report *Report
	// speaks: the agent reported within the interval of a live agent's reports.
	speaks bool
	// cut: the agent reported recently, its connection ended, and the platform was asked after that. Then the platform's
	// state counts, but the agent is not treated as dead.
	cut bool
	// named: the member's own report is missing, and its followers still name it as their leader.
	named bool
	// request is an operator's request for the Slot, or nil.
	request *Request
	// open is the Operation in progress.
	open *operation.Operation
	history
	// policed is the Instance in the Slot's policy; "": none.
	policed string
	// moved is the Revision that a call gave to the CVM, while the admission still names the Boot before; otherwise
	// zero.
	pendingBoot operation.PendingBoot
	// condition is the verdict of all evidence about the member.
	condition condition
	// observed is the attested Revision, or empty (R4).
	observed    string
	terminating bool
	// extra: the Slot exists for the time of a rollout, beyond the group's size.
	extra bool
	// heals is the remedy for the member's fault, found on demand.
	heals once[healing]
	availability
}

// history is the evidence of the recorded Operations of a Slot.
type history struct {
	// past are the ended Operations of this rollout, oldest first.
	past []operation.Operation
	// lastOrder is the highest number of them, also of forgiven ones.
	lastOrder int
	// makers are the Operations, open or ended and of any rollout, whose calls may have made a CVM with the Slot's name.
	makers []*operation.Operation
	// pendingBoots are the Slot's Operations, of any rollout, that began with a moved CVM or ended between two parts.
	pendingBoots []*operation.Operation
	// drains are the ended Operations that drained the Slot for an operator or stopped it, of any rollout.
	drains []operation.Operation
	// healed are the ended Operations that healed the Slot, of any rollout.
	healed []*operation.Operation
	// removal is the completed deletion of the CVM that the Slot is bound to, or nil.
	removal *operation.Operation
}

// availability is how a member counts in its group.
type availability struct {
	// ready is R7 without min_ready. available adds min_ready and "not in a step". reason names the missing condition.
	ready     bool
	reason    string
	available bool
	// fell: the member was ready until this pass. settled: the member serves, and has served for min_ready. flaps: the
	// member serves and does not count yet, because its readiness changed too often (R9).
	fell, settled, flaps bool
	// unsure: the member is in U but may serve. Either it does not report or is unhealthy, and waits for a repair, or it
	// is between two parts of its step. between is only the second case.
	unsure, between bool
}

// ofGroup: the record belongs to a Slot of this group.
func (w *world) ofGroup(r *group.SlotRecord) bool { return r.Group == w.spec.Name || r.Group == "" }

// began: op was recorded under the current rollout.
func (w *world) began(op *operation.Operation) bool {
	r := w.rec.Rollout
	return r != nil && (op.Rollout == r.ID || strings.HasPrefix(op.ID, r.ID+"."))
}

// inScope: the rollout may update it (R22, R41).
func (m *member) inScope() bool { return !m.terminating && !m.want.kept }

// specDrift: the platform shows another size or image than wanted, and no Boot proves either. When two Revisions
// measure the same, the admission names either Revision. An open step checks this after its call is accepted; before
// that, the difference is the step's purpose.
func (w *world) specDrift(m *member) bool {
	i := m.seen.Instance
	return (m.open == nil || m.open.Kind == operation.Update && !m.open.Decided()) && i != nil && !w.platformWorks(m) && !w.shows(m.ordinal, i, m.want.revision)
}

// givenTarget: the member has proven nothing, but its CVM was made for or moved to the target, as far as known.
// Repeating the call would change nothing (R39).
func (w *world) givenTarget(m *member) bool {
	if m.open != nil && m.open.Decided() {
		return m.open.To == m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	if i != nil && i.ComposeHash != "" && wanted != "" {
		// A shared hash is no proof for a down CVM that received another Revision: a corrected spec starts that CVM (R39).
		assigned := m.record.Assigned
		if m.open != nil {
			assigned = m.open.From // the step has not changed the CVM yet
		}
		// The hash is no proof either if the CVM shows another state than assigned: an earlier call made it so. The Slot's
		// policy admits only the assigned Revision.
		shares := w.rec.Revisions[assigned].ComposeHash == wanted
		told := assigned == "" || assigned == m.want.revision || shares && !stoppedWord(i)
		return told && (i.ComposeHash == wanted || w.adoptedAs(m)) && w.shows(m.ordinal, i, m.want.revision)
	}
	last := m.last()
	return i != nil && m.record.Assigned == m.want.revision && (last == nil || last.Phase != operation.Aborted)
}

func (w *world) givenOther(m *member) bool {
	if m.open != nil && m.open.Decided() && m.open.Kind != operation.Restart {
		return m.open.To != m.want.revision
	}
	if m.pendingBoot.To != "" && (m.open == nil || !m.open.Decided()) {
		return m.pendingBoot.To != m.want.revision
	}
	wanted, i := w.rec.Revisions[m.want.revision].ComposeHash, m.seen.Instance
	return !m.ready && i != nil && !w.platformWorks(m) && i.ComposeHash != "" && wanted != "" && i.ComposeHash != wanted && !w.adoptedAs(m)
}

// adoptedAs: the CVM was adopted at its wanted Revision, with a document that another client wrote. The CVM's hash is
// that document's, and the Slot's policy allows it. Replacing the document by Cadre's own would only cost a restart.
func (w *world) adoptedAs(m *member) bool {
	i := m.seen.Instance
	return i != nil && slices.ContainsFunc(w.rec.Policies[m.slot].Allowed, func(a policy.AllowedRevision) bool {
		return a.Revision == m.want.revision && a.ComposeHash == i.ComposeHash
	})
}

// missing: no CVM fills the Slot, and its record binds none.
func (m *member) missing() bool {
	return m.seen.Instance == nil && m.record.InstanceID == "" && m.record.VMUUID == ""
}

// vanished: the listing lacks the CVM that was bound to the Slot.
func (m *member) vanished() bool { return m.seen.Instance == nil && !m.missing() }

// inService: the member is ready and in no step, available or about to be. Its loss would reduce the service.
func (m *member) inService() bool { return m.ready && m.open == nil }

// unavailable is membership in U (R20, R23). A Slot that never had a CVM is provisioning until its Operation is
// recorded (R29). A Slot that lost its CVM is unavailable.
func (m *member) unavailable() bool {
	if m.open != nil {
		return true
	}
	return !m.available && (!m.missing() || len(m.record.Lineage) > 0)
}

// down: the member is in U, and not only because it counts min_ready. A member that serves again while it counts is
// protected like an available member.
func (m *member) down() bool { return m.unavailable() && !m.ready }

// last is the newest ended Operation of the rollout, or nil.
func (m *member) last() *operation.Operation {
	if len(m.past) == 0 {
		return nil
	}
	return &m.past[len(m.past)-1]
}

// knownAppID returns the app of the group, once the spec or a member names it.
func (w *world) knownAppID() string {
	return cmp.Or(w.spec.AppID, w.madeAppID())
}

// madeAppID returns the app in which a CVM of the group was made, by the records or the platform; "": none is known.
func (w *world) madeAppID() string {
	for _, m := range w.everyone {
		if m.record.AppID != "" {
			return m.record.AppID
		}
	}
	for _, m := range w.everyone {
		if m.seen.Instance != nil && m.seen.Instance.AppID != "" {
			return m.seen.Instance.AppID
		}
	}
	return ""
}

// The planner evaluates a disruptive step by the state after the step. The step may begin where the group tolerates
// that state, and also where the step takes away no serving member. The same functions evaluate a step before it
// begins and again right before its platform call (R50). Each accepted step counts in the evaluation of the next
// step (R23).

// taken is the set of steps that this pass has decided to begin. Each counts as begun (R23, R25).
type taken struct {
	slots map[string]bool
	// order starts with the member of the lowest ordinal.
	order   []*member
	creates []string
	// steps counts the steps that take a place at the cluster's limit of steps.
	steps int
	// replacing are the members that get another CVM, joining the members that are created and join the set.
	replacing, joining []*member
	voters             []*member
	// removing is the first terminating member among them, or nil.
	removing *member
	// healing counts the steps that heal.
	healing int
	// added are the members that were not in U before.
	added []*member
	// unsure counts the unavailable members that may still serve.
	unsure int
}

func (t *taken) has(m *member) bool { return t.slots[m.slot] }

// move is a pair of Revisions.
type move struct{ from, to string }

// bucket is the state of the token bucket of a group.
type bucket struct {
	unhealthy int
	// emptied is when the bucket was emptied last: by a repair, or by a member that recovered automatically. The other
	// members may be about to recover too, and get their time again (R121).
	emptied time.Time
}

// seenAt returns the observation of the Slot of an ordinal, or nil.
func (w *world) seenAt(ordinal int) *SlotObservation {
	if w.seenBy == nil {
		w.seenBy = make(map[int]*SlotObservation, len(w.obs.Slots))
		for i := range w.obs.Slots {
			w.seenBy[w.obs.Slots[i].Ordinal] = &w.obs.Slots[i]
		}
	}
	return w.seenBy[ordinal]
}

// tally holds the group-wide counts that the rules need, taken once a pass. A rule that counted alone would make the
// pass quadratic.
type tally struct {
	judgements
	// unavailable are the members of U, open are the members in a step, in order (R20). unsure counts the members of U
	// that may serve.
	unavailable []*member
	unsure      int
	open        []*member
	// openVoters are the members of open that count among the voters and are away.
	openVoters []*member
	// undecided have a call with an unknown effect (R66).
	undecided []*member
	// failedBack had a step that failed, and have not become available since (R40).
	failedBack []*member
	// notAvailable are the desired members that are not available, in order.
	notAvailable []*member
	// extras are the extra members that are available.
	extras []*member
	// delayedBy is the Slot of the step whose pause is running; delayedUntil is the end of that pause.
	delayedBy    string
	delayedUntil time.Time
	// creating have an open Create, steps any other open Operation except a Drain, and replacing an open Replace.
	creating, steps, replacing []*member
	// removing is the first terminating member with an open Delete, or nil.
	removing *member
	// healing counts the open steps of healing.
	healing int
	// proven: one Slot is available at the target.
	proven bool
	// expected counts the agents whose Boot is admitted and whose CVM may run. heard counts the expected agents that
	// report.
	heard, expected int
	// tooHarsh is the first member whose update disrupts more than the spec allows, or nil (R132).
	tooHarsh *member
	// outdated wait for their update. outdatedVoters are the voters among them.
	outdated, outdatedVoters []*member
}

// view is the workload cluster's state according to the members' fresh reports.
type view struct {
	// roles: the workload has leaders and followers.
	roles bool
	// voting: quorum arithmetic applies.
	voting bool
	// leader is the one Slot that leads; leaderDoubt says why no leader is known (R34).
	leader      string
	leaderDoubt string
	// voters is V as the members' configuration lists it; votersDoubt says why contradicting reports make it unknown
	// (R43).
	voters      []string
	votersDoubt string
	// learners are the members of the set without a vote, as its leader lists them.
	learners []string
	// ids are the set's names for its members, as its leader lists them.
	ids map[string]string
	// healthy is H: voters positively known to vote, on the leader's term, caught up.
	healthy map[string]bool
}

// shapeOf returns the wanted size and image of a Slot's CVM at a Revision. own is the Slot's own size; "": the
// Revision's.
func (w *world) shapeOf(ordinal int, revision string) (wanted operation.Shape, own string) {
	t := w.templateOf(revision)
	if len(w.spec.Instances) > 0 { // the usual spec has none, and is not copied for each Slot
		own = w.spec.OwnInstanceType(ordinal, t)
	}
	return operation.Shape{InstanceType: cmp.Or(own, t.InstanceType), OSImage: t.OSImage, DiskGB: t.DiskGB}, own
}

// shows reports that the platform shows no other size or image of a Slot's CVM than wanted at a Revision.
func (w *world) shows(ordinal int, i *Instance, revision string) bool {
	wanted, _ := w.shapeOf(ordinal, revision)
	return i.Shape.Shows(wanted)
}

// templateOf is the content of a Revision: the target's is the spec's, recorded or not.
func (w *world) templateOf(revision string) group.Template {
	if revision == w.target {
		return w.spec.Template
	}
	return w.rec.Revisions[revision].Template
}

// want is the wanted Revision of one Slot, with the reason.
type want struct {
	// revision is empty for a Slot to remove.
	revision string
	// kept: the Slot stays at its current Revision, and no rollout updates it.
	kept bool
	why  string
}

// platformWorks reports that the platform is busy with m's CVM, and that the planner still waits for it.
func (w *world) platformWorks(m *member) bool {
	i := m.seen.Instance
	return i != nil && i.InProgress && w.now.Before(w.worksUntil(m))
}

// worksUntil is when m has been away for as long as a boot may take. A platform task that still runs then is a
// failed boot, and would hold its Slot without an end.
func (w *world) worksUntil(m *member) time.Time {
	return m.record.UnavailableSince.Add(group.HealthyDeadline(w.spec))
}

// fault is a fault of a Slot that none of its other pending steps repairs.
type fault struct {
	// on is the failure class in the terms of restart_policy.
	on  string
	why string
	// down: the platform lists no running CVM. gone: no CVM is left to restart. inside: the agent reports a fault
	// inside of its CVM.
	down, gone, inside bool
	// at is the time from which the planner heals the fault. A time in the future: not yet.
	at time.Time
}

// remedy is a remediation step: its kind, and the service of a Restart, "" for a restart of the CVM.
type remedy struct {
	kind    operation.Kind
	service string
}

// healing is the cached result of heals for one member.
type healing struct {
	remedy remedy
	fault  fault
	ok     bool
}

// places are the members' places in this pass, with the choices that the pass made.
type places struct {
	board *placement.Board
	// chosen are the choices for open steps without a recorded node.
	chosen map[*member]operation.Placing
}

// turn is the failure domain whose members are updated now, and one member that keeps it open; nil: none is left.
type turn struct {
	domain string
	by     *member
}

// stage is the open stage.
type stage struct {
	group.Stage
	// number is its place among all stages, from 1; 0: none is open. slots is the size of the group.
	number, slots int
	all           []group.Stage
	// members are the Slots of the stage.
	members map[*member]bool
}

// opening is the next instant at which a step of the rollout may begin: the present one while a window of the spec is
// open, or where the spec has none.
type opening struct {
	at time.Time
	in window.Window
	ok bool
}
