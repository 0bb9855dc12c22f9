package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

// Types of the group's conditions.
const (
	// ConditionAvailable: the wanted number of Slots is available.
	ConditionAvailable = "Available"
	// ReasonGroupStopped is ConditionAvailable's reason while the spec has `stopped = true`.
	ReasonGroupStopped = "GroupStopped"
	// ConditionUpdated: every Slot in scope is proven at the target.
	ConditionUpdated = "Updated"
	// ConditionProgressing: a rollout progresses or waits.
	ConditionProgressing = "Progressing"
	// ConditionFailed: the rollout failed (R99), or failed and rolls back.
	ConditionFailed = "Failed"
	// ConditionObserved: every source answered (R11).
	ConditionObserved = "Observed"
	// ConditionAgentsReporting is false while too few agents report for any change.
	ConditionAgentsReporting = "AgentsReporting"
	// ConditionQuorum is false while fewer voters than a majority are known to be healthy.
	ConditionQuorum = "Quorum"
	// ConditionOrphans: CVMs of the group that no Slot claims. Cadre leaves them on the platform (R77).
	ConditionOrphans = "Orphans"
	// ConditionAdmissionPolicy is false while an operator's admission request is not fulfilled, such as a lower floor.
	ConditionAdmissionPolicy = "AdmissionPolicy"
	// ConditionUnexplainedMembers is true while Consul knows members or tokens that no admission accounts for (CTL-20). The
	// leader's audit reports them.
	ConditionUnexplainedMembers = "UnexplainedMembers"
	// ConditionQuarantined: Slots that healing gave up on; an operator decides (R118).
	ConditionQuarantined = "Quarantined"
	// ConditionFlapping: Slots that were available and unavailable by turns, and do not count yet (R9).
	ConditionFlapping = "Flapping"
	// ConditionOrder is false while the spec's `after` has a cycle.
	ConditionOrder = "Order"
	// ConditionPlacement is false while members are where the spec's placement does not want them, or the placement
	// names an unknown group.
	ConditionPlacement = "Placement"
	// ConditionVotersShareNode is true while all voters are on one of the platform's nodes.
	ConditionVotersShareNode = "VotersShareNode"
	// ConditionSimulated: admissions happened under a root that is not Intel's.
	ConditionSimulated = "Simulated"
)

// status builds the reported status of the group (R137).
func (w *world) status(p Plan) group.Status {
	s := group.Status{
		Group:           w.spec.Name,
		ObservedIndex:   w.rec.SpecIndex,
		Generation:      w.generation,
		Target:          w.asked,
		TargetNumber:    w.rec.Policy.Number(w.asked),
		Stable:          w.stable,
		FailedRevisions: w.failedRevs,
		Rollout:         w.rollout.ID,
		RolloutState:    string(w.rollout.State),
		Message:         p.Message,
		Replicas:        w.spec.Replicas,
		Transfers:       w.rollout.Transfers,
		Paused:          w.stoppedBy() != "",
		Term:            w.rec.Status.Term,
		At:              w.now,
	}
	for _, m := range w.members {
		if m.extra {
			continue
		}
		if m.available {
			s.Available++
		} else {
			s.Unavailable++
		}
		if m.observed == w.asked && !w.givenOther(m) {
			s.Updated++
		}
	}
	s.Instances = make([]group.InstanceStatus, 0, len(w.everyone))
	for _, m := range w.everyone {
		s.Instances = append(s.Instances, w.instanceStatus(m))
	}
	s.Conditions = w.conditions(s)
	return s
}

func (w *world) instanceStatus(m *member) group.InstanceStatus {
	s := group.InstanceStatus{
		Group: w.spec.Name, Slot: m.slot, Ordinal: m.ordinal,
		AppID: m.record.AppID, InstanceID: m.record.InstanceID, VMUUID: m.record.VMUUID, VIP: m.record.VIP,
		Assigned: m.record.Assigned, Observed: m.observed,
		State: w.stateWord(m), Health: string(Unknown), Reason: m.reason,
	}
	if m.seen.Admission != nil {
		s.BootID, s.Simulated = m.seen.Admission.BootID, m.seen.Admission.Simulated
	}
	if r := m.report; r != nil {
		s.Health, s.Role, s.LagBytes = string(orUnknown(r.Health)), string(r.Role), r.LagBytes
	}
	if i := m.seen.Instance; i != nil {
		s.PlatformStatus = i.Status
	}
	s.Node, s.NodeName, s.Region = w.placeOf(m)
	if m.open != nil {
		s.Operation, s.Phase = m.open.ID, string(m.open.Phase)
		s.Reason = cmp.Or(m.open.Reason, m.reason)
	} else if last := m.last(); !m.available && !m.ready && last != nil && last.Phase == operation.Failed {
		s.Reason = last.Reason
	}
	if m.report != nil && len(m.report.Faults) > 0 {
		faults := "agent: " + strings.Join(m.report.Faults, "; ")
		if s.Reason == "" {
			s.Reason = faults
		} else {
			s.Reason += "; " + faults
		}
	}
	if since := m.since(); !since.IsZero() {
		s.Since = &since
	}
	s.Heals, s.OwnEnv, s.OwnInstanceType, s.Extra = m.record.Heals, w.ownEnvWord(m), w.ownSizeWord(m), m.record.Extra
	s.Drain, s.Protection, s.Exclusion = m.seen.Drain.status(), m.seen.Protection.status(), m.seen.Exclusion.status()
	if code := m.refusedFor(); code != "" {
		s.LastRefusal = fmt.Sprintf("%s: %s", code, m.seen.Refusal.Message)
	}
	return s
}

// since returns when the present state began, as far as recorded.
func (m *member) since() time.Time {
	switch {
	case m.open != nil:
		return m.open.Entered[m.open.Phase]
	case m.ready:
		return m.record.AvailableSince
	}
	return m.record.UnavailableSince
}

// stateWord returns the Slot's state in one word, for people.
func (w *world) stateWord(m *member) group.SlotState {
	if m.open != nil {
		return m.stepWord()
	}
	last := m.last()
	switch {
	case m.missing() && w.silentNode(m) == "":
		return group.SlotMissing
	case m.vanished() && w.obs.Complete() && w.platformKnown(m):
		return group.SlotVanished
	case m.terminating:
		return group.SlotTerminating
	case w.ejected(m):
		return group.SlotOutOfSet
	case w.quarantined(m):
		return group.SlotQuarantined
	case m.available:
		return group.SlotAvailable
	case m.flaps:
		return group.SlotFlapping
	case m.ready:
		return group.SlotSettling
	case last != nil && last.Phase == operation.Failed:
		return group.SlotFailed
	case m.seen.Instance != nil && m.seen.Instance.Running() && !m.admitted():
		return group.SlotBooting
	}
	return group.SlotUnavailable
}

// conditions keep their Since until their status or their reason changes.
func (w *world) conditions(s group.Status) []group.Condition {
	var out []group.Condition
	add := func(kind string, status bool, reason, message string) {
		c := group.Condition{Type: kind, Status: status, Reason: reason, Message: message, Since: w.now}
		for _, was := range w.rec.Status.Conditions {
			if was.Type == kind && was.Status == status && was.Reason == reason {
				c.Since = was.Since
			}
		}
		out = append(out, c)
	}
	state := w.rollout.State
	available := pick(s.Available == s.Replicas, "AllAvailable", "SomeUnavailable")
	if w.groupStopped() {
		available = ReasonGroupStopped
	}
	add(ConditionAvailable, s.Available == s.Replicas, available,
		fmt.Sprintf("%d of %d slots are available", s.Available, s.Replicas))
	outdated := w.target != w.asked || slices.ContainsFunc(w.members, func(m *member) bool {
		return !m.extra && m.inScope() && (m.observed != m.want.revision || w.outdated(m))
	})
	add(ConditionUpdated, !outdated && w.obs.Complete(), pick(outdated, "Outdated", "AtTarget"),
		fmt.Sprintf("%d of %d slots are proven at %.8s", s.Updated, s.Replicas, w.asked))
	add(ConditionProgressing, state.Moves() || state == operation.BakingState, camel(state), w.rollout.Reason)
	switch {
	case state == operation.FailedState:
		add(ConditionFailed, true, "RolloutFailed", w.rollout.Reason)
	case state == operation.RolledBack:
		add(ConditionFailed, true, camel(state), w.rollout.Reason)
	case w.target != w.asked:
		add(ConditionFailed, true, camel(w.rollout.Onward()), w.evidenceText())
	}
	if !w.obs.Complete() {
		add(ConditionObserved, false, "SourceSilent", w.obs.Incomplete())
	} else if unknown := w.unknownMembers(); unknown != "" {
		add(ConditionObserved, false, "NodeSilent", unknown)
	}
	if why := w.unheard(); why != "" {
		add(ConditionAgentsReporting, false, "AgentsSilent", why)
	} else if n := w.obs.Fleet.split(); n > 0 {
		add(ConditionAgentsReporting, false, "FleetSilent", fmt.Sprintf("%d of the cluster's %d agents are silent: silence does not count until most are heard", n, w.obs.Fleet.Expected))
	}
	if why := w.withoutQuorum(); why != "" {
		add(ConditionQuorum, false, "QuorumLost", why)
	}
	if given := where(w.members, w.quarantined); len(given) > 0 {
		add(ConditionQuarantined, true, "HealingGaveUp", "healing gave up "+names.Few(slotsOf(given), ", ")+": cadre instance restart, or cadre instance replace")
	}
	// Slots in a step of their own are left out; Slots that are not ready are included.
	if flap := where(w.members, func(m *member) bool { return m.open == nil && w.flapLeft(m) > 0 }); len(flap) > 0 {
		add(ConditionFlapping, true, "ReadyByTurns", names.Few(slotsOf(flap), ", ")+": "+w.flapText())
	}
	if len(w.obs.Orphans) > 0 {
		orphans := slices.Clone(w.obs.Orphans)
		slices.Sort(orphans)
		add(ConditionOrphans, true, "UnclaimedInstances", "no slot claims "+names.Few(orphans, ", "))
	}
	if problems := w.rec.Problems; len(problems) > 0 {
		var texts []string
		for _, p := range problems {
			texts = append(texts, p.Message)
		}
		add(ConditionAdmissionPolicy, false, problems[0].Reason, names.Few(texts, "; "))
	}
	if path := w.obs.Cycle; len(path) > 0 {
		add(ConditionOrder, false, "Cycle", "`after` has a cycle, "+group.CycleText(path)+": no rollout of these groups goes on; remove one of the entries")
	}
	w.addPlacement(add)
	if w.obs.Simulated {
		add(ConditionSimulated, true, "SimulatedRoot", "admissions were made under a simulated root of trust")
	}
	return out
}

// unknownMembers names the silent nodes with the members that are unknown for that; "": there are none.
func (w *world) unknownMembers() string {
	var order []string
	slots, steps := map[string][]string{}, map[string][]string{}
	for _, m := range w.everyone {
		if why := w.silentNode(m); why != "" {
			if len(slots[why]) == 0 {
				order = append(order, why)
			}
			slots[why] = append(slots[why], m.slot)
			if m.open != nil && m.open.Phase == operation.Acting {
				steps[why] = append(steps[why], m.open.ID) // no other step begins before it ends
			}
		}
	}
	for i, why := range order {
		of, first := slots[why], ""
		if len(steps[why]) > 0 {
			first = "cadre operation mark-failed for " + names.Few(steps[why], ", ") + ", then "
		}
		order[i] = fmt.Sprintf("%s: %s %s unknown; if the node is lost for good with its disks: %scadre instance replace SLOT", why, names.Few(of, ", "), pick(len(of) == 1, "is", "are"), first)
	}
	return strings.Join(order, "; ")
}

// withoutQuorum reports that fewer voters than a majority are known to be healthy, in a group that had its quorum
// before. "" while the group has its quorum, or has no voters.
func (w *world) withoutQuorum() string {
	had := slices.ContainsFunc(w.members, func(m *member) bool { return m.record.WasAvailableAt != "" })
	if !had || !w.quorumLost() || w.stopsOrStarts() {
		return ""
	}
	v := len(w.view.voters)
	if v == 0 {
		v = w.spec.Replicas // no member reports the voters
	}
	return fmt.Sprintf("%d of %d voters are known to be healthy, %d are needed; broken ones are repaired one at a time, on their disks: by a corrected spec, or cadre instance restart",
		len(w.view.healthy), v, group.Quorum(v))
}

// camel turns PARTITION_REACHED into PartitionReached, the form of reasons.
func camel(s operation.RolloutState) string {
	var b strings.Builder
	for _, word := range strings.Split(string(s), "_") {
		if word != "" {
			b.WriteString(word[:1] + strings.ToLower(word[1:]))
		}
	}
	return b.String()
}
