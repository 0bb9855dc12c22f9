package plan

// What a person says about what a group may run.
const (
	// Floor has nothing older run in the group, from then on, than what it is to run at that moment.
	Floor FaultKind = "floor"
	// Revoke takes away, for For, that what the group is to run at that moment may run at all.
	Revoke FaultKind = "revoke"
	// Withdraw takes the approval of that back for For, where somebody gave one.
	Withdraw FaultKind = "withdraw"
)

// gates are the kinds of faults about what may run. No seed draws them: a plan names them.
var gates = []FaultKind{Floor, Revoke, Withdraw}
