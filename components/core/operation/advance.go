package operation

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Advance moves op at most one Phase on, given f. Carry repeats Advance while the next Phase follows from known facts.
// Advance returns the record to write and the effects to perform. It is pure.
//
// The caller records the returned Operation, fenced, and only then performs the effects (R60). Acting is in the
// record, with the time and number of the call, before the call is made. If recording fails, the caller performs no
// effect and reads everything again. Advance keeps no other state: a successor that supplies the record and its own
// facts resumes where the last leader stopped (R70).
//
//	(begun)    agent must drain ─► DRAINING; nothing to drain ─► DRAINED
//	DRAINING   agent is done ─► DRAINED; abort or deadline ─► ABORTED, of half a step ─► DRAINED
//	DRAINED    still safe and wanted ─► ACTING + the call
//	ACTING     effect seen or accepted ─► BOOTING; refused ─► FAILED;
//	           read-back proves no effect ─► ACTING + the call again
//	BOOTING    a new Boot is admitted at To, or its service is restarted ─► JOINING;
//	           a deleted CVM is gone ─► DONE
//	JOINING    hooks done, available except for min_ready ─► SETTLING
//	SETTLING   available for min_ready ─► DONE; any setback ─► JOINING
//
// A Drain stays DRAINED until the drain is no longer wanted, and is DONE then.
func Advance(op Operation, f Facts, now time.Time) (Operation, []Effect) {
	if op.Phase.Ended() || f.Term < op.Term {
		return op, nil // ended, or called by a former leader (R61)
	}
	next, effects := op.advance(f, now)
	next.Failure.Arrived = next.Phase.Ended() && next.Phase != Done && next.newBoot(f)
	return next, effects
}

// Carry advances op while known facts lead from one Phase to the next. It ends at a platform call, at the end of op,
// and where op waits. way holds the intermediate records and the last record. Only the last record is written, since
// the intermediate records have no effect except a wake-up. look returns the Facts for each record. Carry reads clock
// after look, because look takes time. An error of look ends Carry.
func Carry(op Operation, clock func() time.Time, look func(Operation) (Facts, error)) (way []Operation, effects []Effect, err error) {
	for {
		f, err := look(op)
		if err != nil {
			return nil, nil, err
		}
		next, more := Advance(op, f, clock())
		way, effects = append(way, next), append(effects, more...)
		// The policy for the next call takes time to write. The drain is therefore recorded first.
		allows := next.Phase == Drained && next.Kind != Restart && next.Kind != Delete
		waits := next.Phase == op.Phase || next.Phase.Ended() || allows
		if waits || len(way) == maxWay || slices.ContainsFunc(more, func(e Effect) bool { return e.Kind == CallPlatform }) {
			return way, effects, nil
		}
		op = next
	}
}

// maxWay bounds the Phases of one Carry: an Operation in a cycle would never be recorded.
const maxWay = 8

func (op Operation) advance(f Facts, now time.Time) (Operation, []Effect) {
	if f.Term > op.Term {
		op.setBack(now)
	}
	op.Term = f.Term
	if next, effects, resolved := op.resolve(f, now); resolved {
		return next, effects
	}
	if op.Kind == Drain && !op.Entered[Drained].IsZero() {
		return op.stayDrained(f, now)
	}
	switch op.Phase {
	case Draining:
		return op.fromDraining(f, now)
	case Drained:
		return op.fromDrained(f, now)
	case Acting:
		return op.fromActing(f, now)
	case Booting:
		return op.fromBooting(f, now)
	case Joining:
		return op.fromJoining(f, now)
	case Settling:
		return op.fromSettling(f, now)
	case Done, Aborted, Failed, "":
	}
	return op, nil
}

// Same reports that a and b are the same record, so no write is needed.
func Same(a, b Operation) bool { return reflect.DeepEqual(a, b) }

// Begun returns op as its first record: its agent drains, or has nothing to drain. The order to the agent follows from
// the record, so no later write is needed. The drain must end within the given time.
func (op Operation) Begun(within time.Duration, now time.Time) Operation {
	op.Times.Created, op.Times.DrainBy = now, now.Add(within)
	if op.Kind != Create && op.Way.drains() {
		return op.enter(Draining, now).because("waits for the agent to drain")
	}
	return op.enter(Drained, now).because("nothing to drain")
}

// fromDraining waits for the agent. Its hooks carry their own time-outs and results; the deadline here only covers an
// agent that stopped (R79, R80).
func (op Operation) fromDraining(f Facts, now time.Time) (Operation, []Effect) {
	step := op.step(f, VerbDrain)
	op.noteTransfer(step)
	if next, gone := op.makesWay(f, now); gone {
		return next, nil
	}
	if f.Gone || op.goneQuiet(f, now) {
		// No Boot is left to answer, so waiting for the deadline is useless. The precommit check decides whether it is
		// safe to go on.
		if next, effects, off := op.calledOff(f, now); off {
			return next, effects
		}
		return op.enter(Drained, now).because("the boot that was to drain is gone"), nil
	}
	if f.NotServing {
		op.Outage.begin(now)
	}
	if next, effects, off := op.calledOff(f, now); off {
		return next, effects
	}
	switch step.State {
	case StepDone:
		op = op.enter(Drained, now).because("drained")
		if op.Kind != Drain {
			op.Reason = "acts next" // the Phase already says that the member is drained
		}
		return op, nil
	case StepAborted, StepFailed:
		reason := cmp.Or(step.Message, "the drain was called off by the agent")
		if step.State == StepAborted && op.Actor == ActorHealing && op.Kind == Restart && !op.withoutHooks() {
			return op.drainWithoutHooks(reason, f, now)
		}
		return op.undrainable(CauseHook, reason, now)
	case StepHeld:
		// The hook holds beyond the deadline too, until an operator decides (R80).
		return op.because("held by a hook: " + cmp.Or(step.Message, "an operator must decide") + "; " + op.wayOut(f)), nil
	case StepRunning:
		op = op.because(cmp.Or(step.Message, "the agent drains"))
	}
	if !now.Before(op.Times.DrainBy) {
		return op.undrainable(CauseDrainDeadline, "the drain did not end in time", now)
	}
	return op, nil
}

// wayOut names the operator's way to end a step that a hook holds, in addition to completing the hook.
func (op Operation) wayOut(f Facts) string {
	switch {
	case op.Set.Leaves:
		return "complete the hook: its member was told to leave its set, so it is not called off"
	case op.touched():
		return "complete the hook: half of the change is there, so it is not called off"
	case op.Kind == Drain:
		return "complete the hook, or put the slot back with cadre instance undrain " + op.Slot
	case f.Ending:
		return "complete the hook, or take the deletion of the group back with cadre group delete " + op.Group + " --cancel"
	case op.Kind == Restart && (op.Actor == ActorHealing || op.Before.Unavailable):
		// The repair of a down member goes on during a pause or a protection.
		return "complete the hook, or call it off with cadre freeze " + op.Group
	case op.Actor == ActorOperator:
		return "complete the hook, or call it off with cadre instance protect " + op.Slot
	}
	return "complete the hook, or pause the group or change the spec to call it off"
}

// drainWithoutHooks drains a member that is being healed again, for its hand-over alone, after a hook aborted the
// drain. Hooks query an unhealthy workload and would keep it unhealthy. A hook that still holds waits for an operator.
func (op Operation) drainWithoutHooks(reason string, f Facts, now time.Time) (Operation, []Effect) {
	op.Attempt++
	op.Failure.Cause = CauseHook
	op.Times.DrainBy = now.Add(f.Limits.Drain)
	return op.enter(Draining, now).because("drains without its hooks, to be healed: " + reason), []Effect{{Kind: SendOrder, Verb: VerbDrain}}
}

// withoutHooks: a hook aborted the drain, and the member is healed anyway.
func (op Operation) withoutHooks() bool {
	return op.Kind == Restart && op.Actor == ActorHealing && op.Failure.Cause == CauseHook
}

// undrainable ends a failed drain, and the member returns to service. A member that was ordered to leave its set may
// already be out of it. A half-done change cannot be reverted either. Both steps go on.
func (op Operation) undrainable(cause Cause, reason string, now time.Time) (Operation, []Effect) {
	if op.touched() {
		return op.enter(Drained, now).because(reason + "; the step is half done and goes on"), nil
	}
	return op.callOff(cause, reason, now)
}

// fromDrained checks a second time, then commits to the one call (R50, R60).
func (op Operation) fromDrained(f Facts, now time.Time) (Operation, []Effect) {
	if op.Way.Refreshes() && op.newBoot(f) {
		// The policy was written before this step went on, and the Boot attested first. If the step were called off now,
		// the Slot's record would name From.
		op.Call.HashWanted, op.Times.HealthyBy = f.WantedHash, now.Add(f.Limits.Healthy)
		return op.enter(Booting, now).because("attested at the new revision"), nil
	}
	if op.upMeanwhile(f) {
		return op.join(f, "admitted", now)
	}
	if next, effects, off := op.calledOff(f, now); off {
		return next, effects
	}
	if next, gone := op.makesWay(f, now); gone {
		return next, nil
	}
	gone, endless := op.Kind == Replace && op.CVM.VMUUID == "", op.touched() && !now.Before(op.Times.DrainBy)
	if !gone && !endless && op.step(f, VerbDrain).State == StepRunning {
		// The member took up duties again: a drain does not last (R86).
		return op.enter(Draining, now).because("the agent drains again"), nil
	}
	if op.leadsOnceMore(f, now) {
		return op.relieve(f, now)
	}
	reason, ok := op.mayAct(f)
	if ok {
		if reason, ok = op.outOfSet(f); !ok {
			op = op.leave(f, now)
		}
	}
	if !ok {
		switch {
		case op.touched():
			// Half of the change is applied: the step waits as long as a boot may take.
			return op.because(reason).overdueInSet(f, now)
		case !now.Before(op.Times.DrainBy):
			return op.callOff(f.unsafe(), reason, now)
		}
		return op.because(reason), nil
	}
	if op.Way.Refreshes() {
		return op.refresh(f, now)
	}
	if op.Way.Service != "" {
		return op.restartService(f, now)
	}
	if next, done := op.alreadySo(f, now); done {
		return next, nil
	}
	return op.call(f, now)
}

// leadsOnceMore: a member that handed leadership over before the first part of a change leads again between two parts
// (R86). The leading Boot is new, or is the old Boot, because the platform only noted the part and did not restart the
// CVM. Without a second hand-over the step would wait until its deadline. CallIssuedAt is zero from then on; a member
// that still leads is asked again.
func (op Operation) leadsOnceMore(f Facts, now time.Time) bool {
	a := f.Admission
	if op.Kind != Update || len(op.Call.Applied) == 0 || !f.Leads || f.HandOver == nil || a == nil || a.BootID == "" {
		return false
	}
	asked := op.Call.IssuedAt.IsZero()
	livesOn := !asked && op.Call.outlived(a.BootID, f)
	drained := op.Entered[Drained]
	began := op.Times.HealthyBy.Add(-f.Limits.Drain - f.Limits.Healthy) // the time of the first order
	again := asked && !now.Before(drained.Add(max(leadsAgainAfter, drained.Sub(began))))
	return a.BootID != op.Before.BootID || livesOn || again
}

// relieve orders a hand-over between two parts. The hand-over does not count as the rollout's planned transfer. At
// that time the member's Boot stays. The first hand-over of a Boot has a time of its own; later hand-overs of that
// Boot share that time.
func (op Operation) relieve(f Facts, now time.Time) (Operation, []Effect) {
	if !op.Call.IssuedAt.IsZero() || f.Admission.BootID != op.Before.BootID {
		op.Times.HealthyBy = now.Add(f.Limits.Drain + f.Limits.Healthy)
	}
	relief := *f.HandOver
	relief.Relief = true
	f.HandOver, op.Call.IssuedAt = &relief, time.Time{}
	return op.drainAnew(f, "leads again after the first part of the change, and is asked to hand over", now)
}

// setBack moves the clocks of a phase that began in the future of a new leader. The previous leader's clock was ahead,
// and the new leader must not wait for the difference. The age of a call made by another clock is unknown. The time
// that its effect may take therefore counts from here (R62).
func (op *Operation) setBack(now time.Time) {
	if op.Phase == Acting && (op.Call.Undecided()) {
		defer func() { op.Call.IssuedAt = now }()
	}
	entered := op.Entered[op.Phase]
	ahead := entered.Sub(now)
	if ahead <= 0 {
		return
	}
	op.Entered = op.Entered.with(op.Phase, now)
	for _, at := range []*time.Time{&op.Times.DrainBy, &op.Times.HealthyBy, &op.Call.IssuedAt, &op.Seen.AvailableSince, &op.Seen.GoneSince} {
		if !at.IsZero() {
			*at = at.Add(-ahead)
		}
	}
}

// forces: the platform stops the guest without asking. A guest whose agent reported since the step was recorded is
// asked.
func (op Operation) forces(f Facts) bool {
	return op.Way.Mode == ModeForce && op.Call.Part == PartRestart && !f.LastReportAt.After(op.Times.Created)
}

// mayAct checks every condition right before the irreversible call.
func (op Operation) mayAct(f Facts) (reason string, ok bool) {
	switch {
	case !f.PlatformKnown:
		return "waits for the platform's listing", false
	case f.Duplicates > 0:
		return duplicates(f), false
	case op.CVM.replaced(f.Platform):
		return "the platform shows another CVM in place of " + op.CVM.VMUUID, false
	case op.formerIsBack(f):
		return "the platform lists CVM " + f.Platform.VMUUID + " again, which was replaced: delete it there", false
	case f.Platform == nil && op.Kind == Replace && op.CVM.VMUUID != "" && op.Call.Part == "":
		return "the platform does not list CVM " + op.CVM.VMUUID + ", and is asked once more", false
	case f.Platform == nil && op.Kind.InPlace():
		return "the platform does not list CVM " + op.CVM.VMUUID, false
	case f.Platform != nil && f.Platform.InProgress && !f.Platform.Stuck && op.Kind != Create && op.Kind != Delete:
		return "the platform is busy with the CVM", false
	case !f.Safe:
		return "not safe to act: " + cmp.Or(f.SafeReason, "unknown"), false
	}
	return "", true
}

// MayCall is the last check, after the record says Acting and right before the call leaves. f was observed since then.
// The caller answers a refusal with OutcomeNotMade.
func MayCall(op Operation, f Facts) (reason string, ok bool) {
	switch {
	case op.touched():
	case f.Unwanted != "":
		return f.Unwanted, false
	case f.Paused:
		return f.stopped(), false
	case f.Refused != "":
		return f.Refused, false
	}
	if op.Call.Part == PartCreate && f.Platform != nil && f.Duplicates == 0 && !op.formerIsBack(f) {
		return "CVM " + f.Platform.VMUUID + " carries the slot's name already", false
	}
	if reason, ok := op.mayAct(f); !ok {
		return reason, false
	}
	return op.outOfSet(f)
}

// formerIsBack: the listed CVM is a former CVM of the Slot, not the CVM to be made.
func (op Operation) formerIsBack(f Facts) bool {
	return f.Platform != nil && f.Platform.Former && op.wants(PartCreate, f)
}

func duplicates(f Facts) string {
	return fmt.Sprintf("duplicate_instance: %d more CVMs carry this slot's name; remove the wrong ones on the platform", f.Duplicates)
}

// alreadySo adopts an effect that exists without a call of this Operation: a CVM under the Slot's name (R67), or a
// deleted CVM (R68).
func (op Operation) alreadySo(f Facts, now time.Time) (Operation, bool) {
	switch {
	case op.formerIsBack(f):
		return op, false
	case f.Platform != nil && op.wants(PartCreate, f):
		return op.adopt(f, now), true
	case op.Kind == Delete && f.Platform == nil:
		return op.end(Done, "", "the CVM is gone", now), true
	}
	return op, false
}

// wants reports that part is the next part to apply.
func (op Operation) wants(part Part, f Facts) bool {
	parts := op.parts(f)
	return len(parts) > 0 && parts[0] == part
}

// call enters Acting and returns the call of the next part. It records the state before the call, and each later
// leader judges the effect against that state.
func (op Operation) call(f Facts, now time.Time) (Operation, []Effect) {
	parts := op.parts(f)
	if len(parts) == 0 {
		return op.accepted(f, now), nil // no part is left
	}
	if op.Call.Part == "" {
		op.Before.Stopped = f.Platform != nil && f.Platform.Stopped
	}
	op.Call.issue(parts[0], f, now)
	if op.Kind != Create {
		op = op.stops(f, now)
	}
	if op.Phase != Acting {
		op = op.enter(Acting, now)
	}
	op = op.because(fmt.Sprintf("platform call %d issued: %s", op.Call.Number, op.Call.Part))
	return op, []Effect{{Kind: CallPlatform, Call: op.Call.Part, Force: op.forces(f), Shape: op.change(f), VMUUID: op.CVM.VMUUID, InstanceID: op.CVM.InstanceID, Number: op.Call.Number}}
}

// stops records which Boot ends now, and that the Slot does not serve from then on.
func (op Operation) stops(f Facts, now time.Time) Operation {
	if op.CVM.admits(f.Admission) {
		op.Before.BootID = f.Admission.BootID
	}
	op.Outage.begin(now)
	return op
}

// calledOff ends an Operation before it has an effect, if it is no longer wanted or its call would be useless. The
// member returns to service at once (R74, R82, R92, R105).
func (op Operation) calledOff(f Facts, now time.Time) (Operation, []Effect, bool) {
	cause, reason := CauseUnwanted, f.Unwanted
	switch {
	case reason != "":
	case op.Kind == Create && op.Call.Number == 0 && f.Platform != nil && f.Platform.Unbound:
		// The CVM belongs to another client. The listing of the decision did not show it yet.
		cause, reason = CauseUnsafe, "CVM "+f.Platform.VMUUID+" carries the slot's name and no record binds it: cadre group adopt "+op.Group
	case f.Paused:
		cause, reason = CausePaused, f.stopped()+op.askAgain()
	case f.Refused != "":
		cause, reason = CausePrecondition, f.Refused
	}
	if reason == "" || op.touched() {
		return op, nil, false
	}
	next, effects := op.callOff(cause, reason, now)
	return next, effects, true
}

// CallsOff reports whether Advance would end the Operation by these facts before any effect. Nothing is
// prepared for such an Operation.
func (op Operation) CallsOff(f Facts) bool {
	_, _, off := op.calledOff(f, time.Time{})
	return off
}

// askAgain returns how an operator repeats a request that was called off. The Operation answers the request, and no
// other Operation takes it up.
func (op Operation) askAgain() string {
	if op.Request.ID == "" {
		return ""
	}
	ask := "; ask again: cadre instance " + strings.ToLower(string(op.Kind)) + " " + op.Slot
	if op.Way.Service != "" {
		ask += " --service " + op.Way.Service
	}
	return ask
}

// callOff ends the Operation as Aborted, and the member returns to service.
func (op Operation) callOff(cause Cause, reason string, now time.Time) (Operation, []Effect) {
	return op.giveBack(Aborted, cause, reason, now)
}

// giveBack ends an Operation whose member serves again.
func (op Operation) giveBack(p Phase, cause Cause, reason string, now time.Time) (Operation, []Effect) {
	op.Outage.end(now)
	return op.end(p, cause, reason, now), op.cancelDrain()
}

// cancelDrain withdraws an open drain.
func (op Operation) cancelDrain() []Effect {
	if op.Entered[Draining].IsZero() {
		return nil
	}
	return []Effect{{Kind: SendOrder, Verb: VerbCancelDrain}}
}

// noteTransfer records the agent's report about the planned hand-over (R53).
func (op *Operation) noteTransfer(step StepReport) {
	if op.Transfer == nil || op.Transfer.Made || !step.Transferred {
		return
	}
	made := *op.Transfer
	made.Made, made.To = true, step.NewLeader
	op.Transfer = &made
}

// step returns the agent's answer to this Operation's order. Answers with another token (foreign, late or repeated)
// are not applied (R81).
func (op Operation) step(f Facts, verb Verb) StepReport {
	for _, s := range f.Steps {
		if s.Operation == op.ID && s.Verb == verb && s.Attempt == op.Attempt {
			return s
		}
	}
	return StepReport{}
}

// Decided reports that the call's effect is settled, so that a newer spec may change To (R105).
func (op Operation) Decided() bool {
	switch op.Phase {
	case Booting, Joining, Settling:
		return true
	case Draining, Drained, Acting, Done, Aborted, Failed, "":
	}
	return false
}

func (op Operation) enter(p Phase, now time.Time) Operation {
	op.Phase, op.Entered = p, op.Entered.with(p, now)
	return op
}

func (op Operation) end(p Phase, cause Cause, reason string, now time.Time) Operation {
	op = op.enter(p, now)
	op.Failure.Cause, op.Reason, op.Times.Ended = cause, reason, now
	return op
}

func (op Operation) because(reason string) Operation {
	op.Reason = reason
	return op
}
