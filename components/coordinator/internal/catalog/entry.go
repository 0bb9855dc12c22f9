package catalog

import "cadre.dev/core/rollout"

// Member is everything that an entry rests on.
type Member struct {
	Group, Slot, Boot, VIP string
	// Held: the Boot holds its Slot's lease, so some coordinator hears it. Ended: it said
	// farewell.
	Held, Ended bool
	// Draining: an Operation is about to stop it, or does.
	Draining bool
	// Report is the last one of this Boot here, with its Sequence; nil: there is none.
	Report   *rollout.Report
	Sequence uint64
}

// Entry is a member in Consul's catalog: its node with the service of its group.
type Entry struct {
	Group, Slot, Boot, VIP string
	// Sequence of the report that it was made from; 0: of none.
	Sequence uint64
	// Role is its tag; "": it has none.
	Role string
	// Ready: its check is passing. Why is the check's output, one of few texts.
	Ready bool
	Why   string
}

// Why an entry is as it is.
const (
	WhyHealthy   = "healthy"
	WhyUnhealthy = "not healthy"
	WhyUnknown   = "its health is not known"
	WhyDraining  = "draining"
	WhyNoReport  = "no report yet"
	WhySilent    = "no coordinator hears it"
	WhyEnded     = "it said farewell"
)

// Want is what the entry of an admitted Boot should be.
func Want(m Member) Entry {
	out := Entry{Group: m.Group, Slot: m.Slot, Boot: m.Boot, VIP: m.VIP, Sequence: m.Sequence}
	switch {
	case m.Ended:
		out.Why = WhyEnded
		return out
	case !m.Held:
		out.Why = WhySilent
		return out
	case m.Report == nil:
		out.Why = WhyNoReport
		return out
	}
	switch m.Report.Role {
	case rollout.RoleLeader, rollout.RoleFollower, rollout.RoleLearner:
		out.Role = string(m.Report.Role)
	default: // none, or not known: no route goes by it
	}
	switch {
	case m.Draining:
		out.Why = WhyDraining
	case m.Report.Health == rollout.Healthy:
		out.Ready, out.Why = true, WhyHealthy
	case m.Report.Health == rollout.Unknown:
		out.Why = WhyUnknown
	default:
		out.Why = WhyUnhealthy
	}
	return out
}

// Found is what the catalog has under a Slot's name.
type Found struct {
	Entry
	// NodeBoot is the Boot that the node itself names.
	NodeBoot string
	// Exists: there is a node of the name.
	Exists bool
	// Agent: the node has an ID, so an agent registered it, which writes it by itself.
	Agent bool
	// Extra are services of the node beside the group's; nobody should have made them.
	Extra bool
	// NodeIndex and ServiceIndex are for a check-and-set; ServiceIndex 0: no service.
	NodeIndex, ServiceIndex uint64
}

// Step is what is to be done about an entry.
type Step string

const (
	// Keep: it is as it should be, or not ours to change.
	Keep Step = "keep"
	// Update writes the service and its check, and the node where its address changed.
	Update Step = "update"
	// Replace removes the node first, and with it all sessions on it: it is another Boot's.
	Replace Step = "replace"
)

// Decide says what to do about what is found. What is found must be of now for the step to
// count: it is carried out by check-and-set.
func Decide(found Found, want Entry) Step {
	switch {
	case found.Agent:
		return Keep
	case !found.Exists:
		return Update
	case found.Boot != want.Boot || found.Extra:
		return Replace
	case found.ServiceIndex == 0:
		return Update
	case want.Why == WhySilent || want.Why == WhyEnded:
		// It follows from the lease, not from a report, so it has no place in their order; the
		// next report that arrives anywhere is newer than what is kept.
		if found.Why == want.Why {
			return Keep
		}
		return Update
	case want.Sequence < found.Sequence || same(found.Entry, want):
		return Keep
	}
	return Update
}

// same ignores the sequence: a report that says nothing new writes nothing.
func same(a, b Entry) bool {
	a.Sequence, b.Sequence = 0, 0
	return a == b
}
