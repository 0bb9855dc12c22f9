package group

// Membership is a Slot's part in who belongs to its workload's own set of members. It is
// kept in the Slot's record, and handed to the Slot's agent as it stands there.
type Membership struct {
	// Joins: the set was there before the Slot's present disk. The member waits until the
	// others have listed it, and founds no set of its own.
	Joins bool `json:"joins,omitempty"`
	// Set are the Slots that the set lists, this one among them, sorted; empty: it does not
	// list the Slot yet.
	Set []string `json:"set,omitempty"`
	// Founders are the Slots that the set is founded with, this one among them, sorted, as long
	// as this one may still have to start on an empty disk with that list. It stays as it was
	// when the first of them began, whatever size the group is to have by now: members that
	// found with different lists make two sets, each with a majority of its own.
	Founders []string `json:"founders,omitempty"`
	// Change is what the member of this Slot is to change about the set now.
	Change *SetChange `json:"change,omitempty"`
}

// SetChange is one change of who belongs to a workload's set. To make it twice is to make it
// once, and to make it late is to make nothing: one that removes or promotes names the
// incarnation that is meant.
type SetChange struct {
	Do   SetVerb `json:"do"`
	Slot string  `json:"slot"`
	// Member is what the workload knows the incarnation by, as its leader's driver told it
	// before: the id that etcd gave the member, the id of a Consul server in raft. Empty: the
	// workload has none yet, or the agent that leads is too old to tell.
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

// NeedMembership in MustUnderstand: an agent that does not know Membership would let its
// workload found a set of its own beside the one that it was to join.
const NeedMembership = "membership"

// Join hands m to an agent, which must know what it means where a workload would start.
// Who founds with others gets them as its group's members.
func (c *AgentConfig) Join(m *Membership) {
	if m == nil {
		return
	}
	if len(m.Founders) > 0 {
		c.Members = m.Founders
	}
	if m.Joins || m.Change != nil {
		c.Membership = &Membership{Joins: m.Joins, Set: m.Set, Change: m.Change}
	}
	if m.Joins {
		c.MustUnderstand = append(c.MustUnderstand, NeedMembership)
	}
}

// Waits reports that the member of slot must not start yet: nobody listed it.
func (m *Membership) Waits() bool { return m != nil && m.Joins && len(m.Set) == 0 }

// ChangesSet reports whether Cadre takes members out of the workload's set before their disk
// goes (R46-R49). The members of other workloads come and go with their CVMs.
func ChangesSet(s Spec) bool { return workloadKinds[s.Workload.Kind].set.changes }

// AddsMembers reports whether a new member has to be listed by the others before it starts.
// Other workloads let members in by themselves.
func AddsMembers(s Spec) bool { return workloadKinds[s.Workload.Kind].set.adds }

// LeavesAlive reports whether each member leaves the set before its CVM goes. Others are taken
// off the list once they are gone, but for one of the last two: as long as they live they come
// back by themselves.
func LeavesAlive(s Spec) bool { return workloadKinds[s.Workload.Kind].set.leavesAlive }
