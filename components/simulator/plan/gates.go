package plan

// Operators' decisions about the Revisions that a group may run.
const (
	// Floor sets the group's floor to its present target: nothing older may run from then on.
	Floor FaultKind = "floor"
	// Revoke revokes, for For, the permission of the group's present target.
	Revoke FaultKind = "revoke"
	// Withdraw withdraws the approval of the present target for For, where there is one.
	Withdraw FaultKind = "withdraw"
)

// gates are the kinds of faults about permissions. No seed draws them: a plan names them.
var gates = []FaultKind{Floor, Revoke, Withdraw}
