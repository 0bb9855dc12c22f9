package rollout

import (
	"cmp"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// faultOf returns the fault of m, and whether healing is responsible for it (R112). Healing requires that m was
// available at its Revision, that no other step is due, and that its state is known. A member that was never
// available at its Revision is the rollout's failure, and the same step would fail again (R99). No update could
// repair a CVM that is gone.
func (w *world) faultOf(m *member) (a fault, faulty bool) {
	runs, gone := m.runs(), m.vanished() && w.platformKnown(m)
	switch {
	case m.ready, m.terminating, w.spec.AutoHealing == nil, w.unhealed(m):
		return a, false
	case runs == "" || !m.provenAt(runs), len(m.seen.Duplicates) > 0, m.unmanaged():
		return a, false
	case !gone && (m.awaitsBoot() || m.bootedElsewhere() || w.outdated(m) && !w.updateHeld(m) && !w.healedFirst(m)):
		return a, false
	}
	if a, faulty = w.lastingFault(m); !faulty {
		return a, false
	}
	if _, from, failing := w.bakeFault(m); failing && a.inside {
		a.at = later(a.at, from) // a repair before that would hide the evidence
	}
	return a, w.spec.HealsOn(a.on)
}

// lastingFault evaluates the observation of m in this order: the platform's listing, the silence of its agent, the
// agent's report.
func (w *world) lastingFault(m *member) (fault, bool) {
	i := m.seen.Instance
	// While a platform task does not end, the listing does not show whether the CVM runs. The agent's silence
	// counts then.
	says := i != nil && !i.InProgress
	switch {
	case m.vanished() && w.platformKnown(m):
		// A report of its agent, of its leader or of its followers is better evidence.
		return fault{on: group.OnExit, why: "its CVM is gone from the platform", down: true, gone: true, at: m.record.MissedSince.Add(goneFor)},
			m.report == nil && !w.vouched(m)
	case i == nil || w.platformWorks(m):
		return fault{}, false
	case says && i.BootError != "":
		return fault{on: group.OnExit, why: "its CVM does not boot: " + i.BootError, down: true, at: m.silentAt()}, true
	case says && stoppedWord(i):
		return fault{on: group.OnExit, why: "the platform says " + platformWord(i), down: true, at: m.silentAt()}, true
	case says && !i.Running():
		return fault{}, false // the CVM is starting, or its state is not known: no reason to touch it
	case m.report == nil:
		// A restart does not help a member whose Boot was refused.
		return fault{on: group.OnUnhealthy, why: "its agent is silent", at: w.lostAt(m)}, m.admitted() && !w.refused(m)
	}
	return w.unwell(m)
}

// unwell returns the fault in a fresh report that a restart may repair: the process is down, or the health check of
// auto_healing_policies fails. Readiness for traffic does not count (R114). A member that merely has no leader is
// well (R34). During the initial delay of a Boot no fault counts, until the Boot was ready once (R113).
func (w *world) unwell(m *member) (fault, bool) {
	r, check := m.report, w.spec.AutoHealing.HealthCheck
	var booted time.Time
	if a := m.seen.Admission; m.record.AvailableBoot != a.BootID {
		booted = a.AdmittedAt.Add(group.InitialDelay(w.spec))
	}
	switch {
	case m.record.Membership.Waits():
		return fault{}, false // its workload starts once the other members list it
	case w.unanswered(m) && !w.vouched(m):
		at := later(booted, m.record.DownSince.Add(unwellFor))
		return fault{on: group.OnUnhealthy, why: "its workload is down: " + cmp.Or(r.Message, "no word from it"), at: at, inside: true}, true
	case check != "" && slices.Contains(r.Failing, check) && !w.merelyLeaderless(m):
		return fault{on: group.OnUnhealthy, why: "its check " + check + " fails", at: booted, inside: true}, true
	}
	return fault{}, false
}

// processDown reports that m's process has refused connections for as long as healing requires, and that no other
// member vouches for it. A missing answer is no proof after any time. A member that waits to be listed starts no
// process before that.
func (w *world) processDown(m *member) bool {
	if !w.unanswered(m) || w.vouched(m) {
		return false
	}
	return m.record.Membership.Waits() || m.report.Liveness == LivenessRefused && w.mutedLong(m)
}

// mutedLong reports that m's process has not answered for as long as healing requires. A slow answer arrives
// sooner.
func (w *world) mutedLong(m *member) bool { return !w.now.Before(m.record.DownSince.Add(unwellFor)) }

// vouched reports that a live member names m as its leader, or leads and sees m follow. Then m's process works,
// even if its own driver gets no answer.
func (w *world) vouched(m *member) bool { return w.followed(m) || w.follows(m) }

// silentAt is the time after which a live Boot would have sent another report. A reporting member is not down, even
// if a listing says so. A member whose session is cut sends no further report.
func (m *member) silentAt() time.Time {
	if m.report == nil || m.cut {
		return time.Time{}
	}
	return m.report.ReceivedAt.Add(operation.LiveWithin)
}

// refused reports that the coordinator refused another Boot of the Slot's CVM recently, in this outage. The refused
// Boot proved its instance: an unproven caller that names the instance must not keep a silent CVM from its restart.
func (w *world) refused(m *member) bool {
	r, a, since := m.seen.Refusal, m.seen.Admission, m.record.UnavailableSince
	if r == nil || a == nil || !r.Proven || r.InstanceID != a.InstanceID || r.BootID == a.BootID {
		return false
	}
	return !since.IsZero() && !r.At.Before(since) && w.now.Sub(r.At) < w.t.LostAfter
}

// followed reports that a live member names m as its leader.
func (w *world) followed(m *member) bool {
	names := func(other *member) string {
		if r := other.report; r != nil && r.alive() {
			return r.Leader
		}
		return ""
	}
	n := w.found.leaders.of(func() map[string]int {
		all := map[string]int{}
		for _, other := range w.everyone {
			all[names(other)]++
		}
		return all
	})[m.slot]
	if names(m) == m.slot {
		n--
	}
	return n > 0
}

// healedFirst reports that the planner restarts m at the Revision that it runs before the due update. Either the spec
// wants that, until all attempts were made (R116). Or m is silent, and its due update is a refresh, which only a
// reporting agent can prove.
func (w *world) healedFirst(m *member) bool {
	if w.healsAtRunning() && m.observed != "" && !w.spent(m, remedy{kind: operation.Restart}) {
		return true
	}
	i := m.seen.Instance
	return m.report == nil && i.Running() && i.BootError == "" && w.onlyAgentSpec(m)
}

// conditionOf combines the evidence about m. A running member is well when its cluster merely has no leader (R34),
// and when it is only in a step or within min_ready. A silent member is well until its silence reaches lost_after.
func (w *world) conditionOf(m *member) condition {
	switch {
	case m.ready:
		return well
	case m.vanished() && w.platformKnown(m):
		return notBooted // the listing proves the absence, so no silence has to be waited out
	case !m.admitted(), m.shownDown() && !m.heardNow():
		return notBooted // a listing may be minutes old: a member whose agent reports is not down
	case m.bootedElsewhere() && m.report == nil, m.awaitsBoot() && m.open == nil, m.beganWithPendingBoot():
		return notBooted
	case m.report == nil:
		if at := w.lostAt(m); !at.IsZero() && !w.now.Before(at) {
			return lost
		}
		return well
	case w.processDown(m):
		return processDown
	case w.unanswered(m) && (m.named || !w.mutedLong(m)):
		return well // a missing answer proves nothing: it counts in the budget, and is no reason to touch m
	case w.unanswered(m):
		return impaired // the member may still serve
	case w.merelyLeaderless(m):
		return well
	case m.report.Health == Unhealthy:
		return impaired
	case m.answers(w.spec) && (!m.report.MemberReady || m.report.CaughtUp != nil && !*m.report.CaughtUp):
		return impaired
	}
	return well
}
