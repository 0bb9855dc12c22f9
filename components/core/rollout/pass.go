package rollout

import (
	"cmp"
	"maps"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/upgrade"
)

// Pass is one evaluation of a group. The Plan and the Facts of each Operation come from the same evaluation. A Pass
// is not safe for concurrent use.
type Pass struct{ w *world }

// Facts returns FactsFor of one Operation of the Pass.
func (p *Pass) Facts(op operation.Operation) operation.Facts {
	w := p.w
	f := operation.Facts{
		WantedHash: w.rec.Revisions[op.To].ComposeHash,
		Content:    operation.Content{PostLaunch: group.HasHook(w.specAt(op.To), group.PostLaunch)},
		ObservedAt: w.obs.At,
		StopFirst:  w.t.StopFirst,
		Will:       operation.Will{Paused: w.stopped(op.Kind, op.Actor), PausedBy: w.stoppedBy(), Ending: w.ending()},
		Limits: operation.Limits{
			Drain:    w.drainLimit(op.Way, op.From),
			Healthy:  group.HealthyDeadline(w.spec),
			Service:  min(serviceWithin, group.HealthyDeadline(w.spec)),
			MinReady: group.MinReady(w.spec),
			Settle:   w.t.Settle,
			Unknown:  w.t.UnknownDeadline,
		},
	}
	if r, ok := w.obs.Resolved(op); ok {
		f.Resolved = &operation.Resolution{ID: r.ID, As: operation.Failed, By: r.By, Reason: r.Reason}
		if r.As == "done" {
			f.Resolved.As = operation.Done
		}
	}
	m := w.find(op.Slot)
	if m == nil {
		// The Slot is to be removed and has neither record nor CVM: it is as empty as a Slot can be.
		f.PlatformKnown = w.obs.Platform.Known
		f.Safe, f.SafeReason = w.obs.Complete(), w.obs.Incomplete()
		return f
	}
	w.addSeen(&f, m)
	if closed := w.gatesStop(m, op); closed != "" && !f.Paused {
		f.Paused, f.PausedBy = true, closed
	}
	if op.Actor == operation.ActorHealing {
		f.Limits.Service = min(f.Limits.Service, f.Limits.Healthy)
	}
	f.AwaitsQuorum, f.Unjudged = w.awaitsQuorum(m), m.unjudged(op.To)
	f.Set, f.LeavesAlive = w.inSet(m), w.leavesAlive(m)
	f.Member = w.view.ids[m.slot]
	if f.WantedShape, f.OwnInstanceType = w.shapeOf(m.ordinal, op.To); op.Call.Shapes() {
		// A step that has begun asks the platform for one size only, and ends by that size. A newer size is another step.
		f.OwnInstanceType = op.Call.OwnInstanceType
		f.WantedShape.InstanceType = cmp.Or(f.OwnInstanceType, w.templateOf(op.To).InstanceType)
	}
	f.OwnEnv, f.GivenEnv = w.spec.OwnEnv(m.ordinal, w.templateOf(op.To)), m.record.OwnEnv
	f.EnvDiffers = !maps.Equal(w.templateOf(op.From).Env, w.templateOf(op.To).Env)
	if op.Phase == operation.Booting && !op.Way.Refreshes() && op.Way.Service == "" {
		f.NewImages = newImages(w.templateOf(op.From).Compose, w.templateOf(op.To).Compose)
	}
	if op.Phase == operation.Joining && op.Kind == operation.Update {
		f.Unread = w.mayNotRead(m, op)
	}
	f.Unwanted = w.unwanted(m, op)
	f.Elsewhere = op.To != m.want.revision
	if op.Kind.Rolls(op.Actor) && !op.MadeWay() {
		f.Refused = w.refusedStep(m.slot, m.ordinal, op.To) // the platform is asked about it until it accepts it
	}
	if op.Kind == operation.Drain || op.Kind == operation.Update && len(op.Call.Applied) > 0 {
		f.Leads = (m.leads() || m.named) && !group.StopsLeader(w.spec) // else it leads until it is stopped, as it should
		// A leader that has to hand over again does so as in a drain: the rollout's one transfer was made already.
		f.HandOver = w.transfer(candidate{m: m, kind: operation.Drain, to: op.To, condition: well})
	}
	f.Placing = w.placing(m, op)
	f.SafeReason = w.unsafe(m, op)
	f.Safe = f.SafeReason == ""
	return f
}

// unsafe is the second evaluation, right before the irreversible call (R50), with the same table of predicates as
// the first. op's own Slot counts as gone. The effects of its drain do not count against it.
func (w *world) unsafe(m *member, op operation.Operation) string {
	c := m.again(op)
	c.left = op.Set.Leaves && w.inSet(m) == operation.SetAbsent || op.MadeWay() || w.downByHalf(m, op)
	return firstMessage(w.holdsOf(c, evaluation{taken: &taken{}, op: &op}))
}

// noteBetween finds the members that serve between two parts of their change, and whose next part may not be made now.
// The next call is judged when it comes. Until then repairs of other members do not wait for it.
func (w *world) noteBetween() {
	for _, m := range w.tally.steps {
		op := m.open
		waits := op.Phase == operation.Drained || op.Phase == operation.Acting && op.Call.InVain()
		m.between = op.Kind == operation.Update && len(op.Call.Applied) > 0 && waits && w.serves(m) && w.unsafe(m, *op) != ""
		if m.unsure = m.between && !m.extra && !m.terminating; m.unsure {
			w.tally.unsure++
		}
	}
	w.tally.openVoters = slices.DeleteFunc(w.tally.openVoters, func(m *member) bool { return m.between })
}

// VersionFindings returns the findings of the rules of version upgrades about the updates that the spec asks for.
func (p *Pass) VersionFindings() []upgrade.Finding { return p.w.versionFindings() }
