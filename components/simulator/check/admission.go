package check

import (
	"slices"

	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
)

// admission is I9: a Boot that takes a Slot belongs to the instance that is bound to it. The policy
// in force in that transaction allows its Revision: named, not below the floor, approved where
// needed, not revoked. The admission carries the policy's epoch, so that no older policy judged it.
// A later write about the same Boot is no admission.
func admission(s *state, e trace.Event) []string {
	a := e.Admission
	if e.Kind != trace.Committed || e.Deleted || a == nil {
		return nil
	}
	m := s.member(a.Slot)
	if m.admission != nil && m.admission.BootID == a.BootID {
		return nil
	}
	if why := refusal(a, m.policy); why != "" {
		return wrong("boot %s is admitted as %s: %s", a.BootID, a.Slot, why)
	}
	return nil
}

// refusal is why p does not permit a; "" where it does.
func refusal(a *policy.Admission, p *policy.SlotPolicy) string {
	switch {
	case p == nil:
		return "the Slot has no policy"
	case p.InstanceID == "":
		return "no instance is bound to it"
	case p.InstanceID != a.InstanceID:
		return "it is of instance " + a.InstanceID + ", bound is " + p.InstanceID
	case p.AppID != "" && a.AppID != p.AppID:
		return "it is of app " + a.AppID + ", bound is " + p.AppID
	case !slices.ContainsFunc(p.Allowed, func(r policy.AllowedRevision) bool { return fits(a, p, r) }):
		return "its policy does not allow revision " + a.Revision
	case policy.Barred(*a, *p).Code != "":
		return policy.Barred(*a, *p).Message
	case a.Epoch != p.Epoch:
		return "it was judged by another policy than the one in force"
	}
	return ""
}

// fits: r admits a.
func fits(a *policy.Admission, p *policy.SlotPolicy, r policy.AllowedRevision) bool {
	hash := a.Claims.ComposeHash
	return r.Revision == a.Revision && (hash == "" || hash == r.ComposeHash) && (r.Approved || !p.RequireApproval) && r.Number >= p.Floor
}

// oneHolder is I10: while a Boot serves as a Slot, no other Boot begins to. A Boot that the record
// in force does not name never begins to serve. A Boot that takes the Slot from another has a
// greater generation.
func oneHolder(s *state, e trace.Event) []string {
	switch {
	case e.Kind == trace.Served:
		m := s.member(e.Slot)
		for _, other := range m.serving {
			if other != e.Boot {
				return wrong("boot %s serves as %s while boot %s does", e.Boot, e.Slot, other)
			}
		}
		if a := m.admission; a != nil && a.BootID != e.Boot {
			return wrong("boot %s serves as %s, which boot %s holds", e.Boot, e.Slot, a.BootID)
		}
	case e.Kind == trace.Committed && e.Admission != nil && !e.Deleted:
		a, before := e.Admission, s.member(e.Admission.Slot).admission
		if before != nil && before.BootID != a.BootID && a.Generation <= before.Generation {
			return wrong("boot %s takes %s from boot %s with generation %d after %d", a.BootID, a.Slot, before.BootID, a.Generation, before.Generation)
		}
	}
	return nil
}
