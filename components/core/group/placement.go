package group

// Names of platform drivers.
const (
	PlatformPhala = "phala"
	PlatformVMM   = "vmm"
)

// Platforms are the names of the platform drivers, the default first.
func Platforms() []string { return []string{PlatformPhala, PlatformVMM} }

// Spread names the failure domain over which a group's members are spread.
type Spread string

// Failure domains. A node and a region are the platform's words; a machine is proven by attestation.
const (
	SpreadNone    Spread = ""
	SpreadNode    Spread = "node"
	SpreadRegion  Spread = "region"
	SpreadMachine Spread = "machine"
)

// Placement decides where new CVMs of a group are made. A disk stays with its CVM, so no rule moves
// a CVM that is there.
type Placement struct {
	Spread Spread `json:"spread,omitempty"`
	// MaxPer bounds the members of the group in one domain; at least 1, default 1 where Spread is set.
	MaxPer int `json:"max_per,omitempty"`
	// Nodes are the only nodes for the group, by id or name; empty: every node.
	Nodes []string `json:"nodes,omitempty"`
	// Require makes each rule hard: a create that breaks it is held. Else a rule is a preference.
	Require bool `json:"require,omitempty"`
	// Verified refuses the admission of a member on a machine that has MaxPer members already, by the
	// attested machine. It needs Spread = SpreadMachine.
	Verified bool `json:"verified,omitempty"`
	// Machines are the only machines on which a member is admitted, by the keyed hash that
	// `cadre admission explain` shows, at least 16 hex digits of it; empty: every machine.
	Machines []string `json:"machines,omitempty"`
	// With are groups whose nodes are preferred, NotWith groups whose nodes are avoided.
	With    []string `json:"with,omitempty"`
	NotWith []string `json:"not_with,omitempty"`
}
