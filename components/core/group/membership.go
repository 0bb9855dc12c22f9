package group

// Membership is a Slot's part in the workload's own set of members. The Slot's record keeps it, and
// the Slot's agent receives it unchanged.
type Membership struct {
	// Joins: the set was there before the Slot's present disk. The member waits until the
	// others have listed it, and founds no set of its own.
	Joins bool `json:"joins,omitempty"`
	// Set are the Slots that the set lists, this one among them, sorted; empty: it does not
	// list the Slot yet.
	Set []string `json:"set,omitempty"`
	// Founders are the Slots that bootstrap the set, this one among them, sorted. The list stays
	// while this Slot may still start on an empty disk, and keeps its first value when the group's
	// size changes: members that bootstrap with different lists make two sets, each with a
	// majority.
	Founders []string `json:"founders,omitempty"`
	// Change is the change of the set that the member of this Slot makes now.
	Change *SetChange `json:"change,omitempty"`
}

// SetChange is one change of a workload's set of members. A repeated change has no further effect,
// and a late change has none: a removal or promotion names the incarnation.
type SetChange struct {
	Do   SetVerb `json:"do"`
	Slot string  `json:"slot"`
	// Member is the workload's own id of the incarnation, as the leader's driver reported it: the
	// member id of etcd, or the raft id of a Consul server. Empty: the workload has no id yet, or
	// the leading agent is too old to report one.
	Member string `json:"member,omitempty"`
}

// SetVerb is a kind of change.
type SetVerb string

const (
	// SetAdd lists a Slot as a member that does not vote.
	SetAdd SetVerb = "add"
	// SetPromote gives a listed member its vote.
	SetPromote SetVerb = "promote"
	// SetRemove takes a Slot off the list.
	SetRemove SetVerb = "remove"
)

// NeedMembership in MustUnderstand stops an agent that does not know Membership. Its workload would
// otherwise bootstrap a second set instead of joining the first.
const NeedMembership = "membership"

// Join hands m to an agent, which must understand it where a workload would start. A Slot that
// bootstraps with others gets them as its group's members.
func (c *AgentConfig) Join(m *Membership) {
	if m == nil {
		return
	}
	if len(m.Founders) > 0 {
		c.Members = m.Founders
	}
	if m.Joins || m.Change != nil || len(m.Founders) > 0 {
		c.Membership = &Membership{Joins: m.Joins, Set: m.Set, Founders: m.Founders, Change: m.Change}
	}
	if m.Joins {
		c.MustUnderstand = append(c.MustUnderstand, NeedMembership)
	}
}

// Waits reports that the member of slot must not start yet, because no member has listed it.
func (m *Membership) Waits() bool { return m != nil && m.Joins && len(m.Set) == 0 }

// ChangesSet reports whether Cadre takes members out of the workload's set before their disk
// goes (R46-R49). The members of other workloads come and go with their CVMs.
func ChangesSet(s Spec) bool { return s.Workload.traits().set.changes }

// AddsMembers reports whether the other members must list a new member before it starts. Other
// workloads admit members automatically.
func AddsMembers(s Spec) bool { return s.Workload.traits().set.adds }

// LeavesAlive reports whether each member leaves the set before its CVM is deleted. Members of
// other workloads are removed from the list afterwards, except one of the last two: a live member
// would rejoin automatically.
func LeavesAlive(s Spec) bool { return s.Workload.traits().set.leavesAlive }
