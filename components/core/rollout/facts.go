package rollout

import (
	"fmt"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// FactsFor joins what is known about one open Operation, for operation.Advance. It
// includes the second look at quorum and roles (R50), whether the Operation is
// still wanted (R82, R105), and the clock of R8. The caller adds what only it
// knows: Term, Call, CallInFlight, Retargeted.
func FactsFor(spec group.Spec, rec Records, obs Observation, now time.Time, t Timing, op operation.Operation) operation.Facts {
	w := newWorld(spec, rec, obs, now, t)
	w.trackRollout()
	f := operation.Facts{
		WantedHash: rec.Revisions[op.To].ComposeHash,
		ObservedAt: obs.At,
		Paused:     obs.Frozen || obs.Paused && (op.Kind != operation.Create || w.stable == ""),
		PostLaunch: group.HasHook(w.specAt(op.To), group.PostLaunch),
		Limits: operation.Limits{
			Drain:    group.DrainDeadline(w.specAt(op.From)),
			Healthy:  group.HealthyDeadline(spec),
			MinReady: group.MinReady(spec),
			Settle:   w.t.MaxCallTimeout,
			Unknown:  w.t.UnknownDeadline,
		},
	}
	m := w.find(op.Slot)
	if m == nil {
		// Condemned, without record or CVM: as empty as a Slot can be.
		f.PlatformKnown = obs.Complete
		f.Safe, f.SafeReason = obs.Complete, "the platform was not listed"
		return f
	}
	w.addSeen(&f, m)
	f.Unwanted = w.unwanted(m, op)
	f.SafeReason = w.unsafe(m, op)
	f.Safe = f.SafeReason == ""
	return f
}

// specAt is the spec with the conduct of a Revision: the Boot that runs it goes by that
// one, whatever the spec says by now. Without its record the spec's own is all there is.
func (w *world) specAt(revision string) group.Spec {
	if r, ok := w.rec.Revisions[revision]; ok && revision != w.target {
		return w.spec.With(r.Conduct)
	}
	return w.spec
}

// addSeen copies the observation of m.
func (w *world) addSeen(f *operation.Facts, m *member) {
	f.PlatformKnown = w.platformKnown(m)
	f.Duplicates = len(m.seen.Duplicates)
	if i := m.seen.Instance; i != nil {
		f.Platform = &operation.PlatformView{
			VMUUID: i.VMUUID, InstanceID: i.InstanceID, Running: i.Running(), InProgress: i.InProgress,
			ComposeHash: i.ComposeHash, BootError: i.BootError, UpdatedAt: i.UpdatedAt,
		}
	}
	if a := m.seen.Admission; a != nil {
		f.Admission = &operation.AdmissionView{BootID: a.BootID, Revision: a.Revision, InstanceID: a.InstanceID}
	}
	if r := m.seen.Refusal; r != nil {
		f.Refusal = &operation.RefusalView{Code: string(r.Code), Message: r.Message, At: r.At}
	}
	if r := m.seen.Report; r != nil {
		f.LastReportOf, f.LastReportAt = r.BootID, r.ReceivedAt
	}
	if m.report != nil {
		f.Steps = m.report.Steps
		f.NotServing = m.report.Health == Unhealthy || group.HasDriver(w.spec) && !m.report.MemberReady
	}
	f.Gone = m.report == nil && m.provenElsewhere()
	if m.ready {
		f.ReadySince = m.record.AvailableSince
	}
	f.ReadyReason = m.reason
}

// unwanted is why op should not be begun any more; empty while it should (R82, R105).
func (w *world) unwanted(m *member, op operation.Operation) string {
	switch {
	case op.Kind == operation.Delete && !m.condemned:
		return "the slot is wanted again"
	case op.Kind == operation.Delete && w.spec.PreservedState.Disk != "":
		return fmt.Sprintf("the spec preserves the disk %q", w.spec.PreservedState.Disk)
	case op.Kind == operation.Delete:
		return ""
	case m.condemned:
		return "the slot is being scaled in"
	case op.SkipDrain && op.Kind != operation.Create && w.serves(m):
		return "the member came back and must be drained first: planned anew"
	case op.Kind == operation.Restart:
		return ""
	case op.Kind == operation.Create && (op.To == w.target || op.To == w.stable):
		return ""
	case op.To != w.target:
		return fmt.Sprintf("the spec moved on to %.8s", w.target)
	case op.Kind == operation.Update && !w.outdated(m):
		return "the slot is not outdated any more"
	case w.rollout.State == operation.FailedState && op.Attempt <= 1 && op.Kind == operation.Update:
		return "the rollout failed: " + w.rollout.Reason
	}
	return ""
}

// serves: stopping m without a drain would be felt.
func (w *world) serves(m *member) bool { return m.ready || w.view.healthy[m.slot] || m.leads() }

// unsafe is the second look, right before the irreversible call (R50). op's own
// Slot counts as gone; what the drain changed about it does not count against it.
func (w *world) unsafe(m *member, op operation.Operation) string {
	if !w.obs.Complete {
		return orWord(w.obs.Incomplete, "a source") + " did not answer"
	}
	if age := w.now.Sub(w.obs.At); age > w.t.StaleAfter {
		return fmt.Sprintf("the observation is %s old", short(age))
	}
	switch op.Kind {
	case operation.Create:
		return ""
	case operation.Delete:
		return firstMessage(w.holdsOfRemoval(m), w.leadsAgain(m, op))
	case operation.Update, operation.Restart:
	}
	if op.Sick && w.outsideQuorum(candidate{m: m, kind: op.Kind, broken: w.brokenness(m)}) {
		return firstMessage(w.leadsAgain(m, op))
	}
	return firstMessage(w.budgetAgain(op), w.leadsAgain(m, op), w.majorityAgain(m), w.driverAgain(m))
}

// budgetAgain: something else became unavailable meanwhile. op's own Slot is in U by
// its intent.
func (w *world) budgetAgain(op operation.Operation) []Hold {
	u, limit := w.unavailableSet(&taken{}), group.MaxUnavailable(w.spec)
	if len(u) <= limit || op.WasUnavailable {
		return nil
	}
	return []Hold{hold(HoldMaxUnavailable, "max_unavailable is %d and %s", limit, notAvailable(u))}
}

// leadsAgain: whoever is stopped now must not lead, and somebody must (R33, R34,
// R86). A sick leader that nobody can relieve is stopped all the same.
func (w *world) leadsAgain(m *member, op operation.Operation) []Hold {
	switch {
	case !w.view.roles || len(w.members) == 1 || !w.voter(m):
		return nil
	case !m.ready && op.Transfer == nil:
		return nil
	case m.leads():
		return []Hold{hold(HoldLeaderUnknown, "%s leads", m.slot)}
	case w.view.leader == "":
		return []Hold{hold(HoldLeaderUnknown, "the leader is unknown: %s", w.view.leaderDoubt)}
	}
	return nil
}

// driverAgain asks the workload once more, as long as the member still serves (R52).
func (w *world) driverAgain(m *member) []Hold {
	if !m.ready {
		return nil
	}
	return w.holdsOfDriver(m)
}

// majorityAgain is R44 with observations newer than the intent.
func (w *world) majorityAgain(m *member) []Hold {
	if !w.view.voting || !w.voter(m) || w.spec.Replicas == 1 {
		return nil
	}
	v := len(w.view.voters)
	switch {
	case w.view.votersDoubt != "":
		return []Hold{hold(HoldQuorumUnknown, "the members do not agree who votes: %s", w.view.votersDoubt)}
	case v == 0:
		return []Hold{hold(HoldQuorumUnknown, "no member tells who votes")}
	case v == 1, v == 2 && w.spec.UpdatePolicy.Interruption == group.InterruptionAllow:
		return nil
	}
	if left := w.healthyWithout(m, &taken{}); len(left) < group.Quorum(v) {
		return []Hold{hold(HoldQuorum, "%s", quorumText(m.slot, left, v))}
	}
	return nil
}

func firstMessage(holds ...[]Hold) string {
	for _, h := range holds {
		if len(h) > 0 {
			return h[0].Predicate + ": " + h[0].Message
		}
	}
	return ""
}
