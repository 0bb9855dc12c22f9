package rollout

import (
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// holdsOfPolicy holds a step to a Revision that admission would refuse. Its Boot could not come back, and the step
// would only be an outage.
func (w *world) holdsOfPolicy(c candidate, _ evaluation) []Hold {
	d := w.gate(c.to)
	if d.Allowed && (c.kind == operation.Update || c.kind == operation.Create || c.kind == operation.Replace) {
		d = JudgeEnv(w.spec, w.rec.Policy, c.m.record, c.to, w.templateOf(c.to))
	}
	if d.Allowed {
		return nil
	}
	predicate, way := HoldRevoked, "go on with another revision, or take the revocation back: `cadre admission unrevoke`"
	if d.Code == policy.CodeRevisionNotApproved {
		predicate, way = HoldNotApproved, fmt.Sprintf("it waits for approval: `cadre admission approve %.8s`", c.to)
	}
	if d.Code == policy.CodeRevisionBelowFloor {
		predicate, way = HoldBelowFloor, "a floor never falls: go forward with a newer revision"
	}
	if w.pinRefused(c.m) && c.to == c.m.want.revision {
		way += fmt.Sprintf("; or take instance[\"%d\"].pinned_revision of %s away, which names it", c.m.ordinal, c.m.slot)
	}
	return []Hold{hold(predicate, "%s: %s; %s", d.Code, d.Message, way)}
}

// holdsOfSecrets holds each step that ends with a Boot, while admission would refuse a Boot for a secret without a
// value.
func (w *world) holdsOfSecrets(c candidate, _ evaluation) []Hold {
	if c.refresh || c.service != "" {
		return nil // the same Boot goes on
	}
	var holds []Hold
	for _, name := range w.rec.NoValue {
		holds = append(holds, hold(HoldSecretNoValue, "%s: secret %s has no value; give one: cadre secret set %s/%s --from-file FILE",
			policy.CodeSecretNoValue, name, w.spec.Name, name))
	}
	return holds
}

// JudgeEnv decides whether the CVM of a Slot may be given the spec's env for that Slot, at a Revision with template
// t.
func JudgeEnv(spec group.Spec, gp policy.GroupPolicy, record group.SlotRecord, revision string, t group.Template) policy.Decision {
	_, ordinal, err := group.ParseSlot(record.Slot)
	if err != nil || !gp.RequireApproval {
		return policy.Decision{Allowed: true, Revision: revision}
	}
	return gp.JudgeEnv(revision, record.Slot, spec.OwnEnv(ordinal, t), record.OwnEnv, spec.OwnEnvs(t))
}

// mayRun reports that the policy allows a Revision, and that the platform accepts it, as far as is known.
func (w *world) mayRun(revision string) bool {
	return w.gate(revision).Allowed && w.obs.Refused[revision] == ""
}

// pinRefused reports that m is pinned to a Revision that may not run, and does not run it. m waits for a new pin,
// or for a decision about the Revision. The other members do not wait for m.
func (w *world) pinRefused(m *member) bool {
	pin := w.spec.Instance(m.ordinal).PinnedRevision
	return pin != "" && pin == m.want.revision && w.outdated(m) && !w.mayRun(pin)
}

// gate judges a Revision by the group's policy, once per pass, since the judgement hashes its content.
func (w *world) gate(revision string) policy.Decision {
	if d, ok := w.judged[revision]; ok {
		return d
	}
	d := w.rec.Policy.Judge(revision, group.Content(w.templateOf(revision)), w.rec.Revisions[revision].ComposeHash)
	if w.judged == nil {
		w.judged = make(map[string]policy.Decision)
	}
	w.judged[revision] = d
	return d
}

// outdated: the member is in scope and not proven to run its wanted Revision, or received another Revision since the
// proof. A Slot that boots another Revision is no longer at the Revision of its last admission.
func (w *world) outdated(m *member) bool {
	switch {
	case !m.inScope():
		return false
	case m.observed == "":
		// The member needs an update if an operator must bind the CVM with its name, or must allow its assigned Revision
		// again.
		return m.unmanaged() || !w.givenTarget(m) || !w.mayRun(m.want.revision)
	}
	return m.observed != m.want.revision || w.givenOther(m) || w.specDrift(m) || w.envUnapplied(m)
}
