package adapter

// Bounds of the wire.
const (
	// MaxBody bounds a request and an answer, in bytes.
	MaxBody = 64 << 10
	// MaxText bounds Message, Fault and MayDisruptReason, in bytes.
	MaxText = 512
	// MaxName bounds every other text, such as a name, an id, a version or an entry of Busy, in bytes.
	MaxName = 256
	// MaxMembers bounds each list: the most members of a group whose workload has a driver.
	MaxMembers = 100
)

// Paths of the calls.
const (
	PathMember   = "/v1/member"
	PathTransfer = "/v1/transfer"
	PathDrain    = "/v1/drain"
	PathSet      = "/v1/set"
)

// Names of the commands of the exec form, as declared under x-cadre.exec.
const (
	CommandMember   = "member"
	CommandTransfer = "transfer"
	CommandDrain    = "drain"
	CommandUndrain  = "undrain"
	CommandSet      = "set"
)

// Exit codes of a command of the exec form. 0: the answer counts; every other code is transient. The
// reason for people is the first line on the descriptor that CADRE_REASON_FD names.
const (
	ExitBusy   = 75
	ExitUnsafe = 65
)

// AnswerVariable is the environment variable with the number of the descriptor that takes the answer of
// a command.
const AnswerVariable = "CADRE_ANSWER_FD"

// Values of Member.Role.
const (
	RoleLeader   = "leader"
	RoleFollower = "follower"
	RoleLearner  = "learner"
	RoleNone     = "none"
	RoleUnknown  = "unknown"
)

// Values of SetRequest.Do.
const (
	DoAdd     = "add"
	DoPromote = "promote"
	DoRemove  = "remove"
)

// Values of Member.Liveness.
const (
	// Alive: the workload's process answered, even with a refusal.
	Alive = "alive"
	// Refused: no process listens.
	Refused = "refused"
	// Unknown: no answer came in time, which proves nothing.
	Unknown = "unknown"
)

// Member is the state of this member. Names of members are Slot names, such as "kafka-0".
type Member struct {
	// Role in the workload's cluster: leader, follower, learner, none or unknown.
	Role string `json:"role"`
	// Liveness of the workload's process: alive, refused or unknown.
	Liveness string `json:"liveness"`
	// Ready: the member may receive traffic of its role.
	Ready bool `json:"ready"`
	// CaughtUp: absent is not known. Never send true for "not known".
	CaughtUp *bool `json:"caught_up,omitempty"`
	// LagBytes behind the leader; absent is not known.
	LagBytes *int64 `json:"lag_bytes,omitempty"`
	// Leader as this member sees it; empty: not known.
	Leader string `json:"leader,omitempty"`
	// Epoch grows with each change of the leader: a term, a generation, a timeline.
	Epoch uint64 `json:"epoch,omitempty"`
	// Voters of the set, as this member's configuration lists them.
	Voters []string `json:"voters,omitempty"`
	// Learners belong to the set without a vote.
	Learners []string `json:"learners,omitempty"`
	// MemberIDs maps the name of each listed member to the workload's own id of it. A replaced member has
	// another id under the same name.
	MemberIDs map[string]string `json:"member_ids,omitempty"`
	// Followers are the members that this leading member sees following it now.
	Followers []string `json:"followers,omitempty"`
	// Busy lists work in progress that a stop would hurt.
	Busy []string `json:"busy,omitempty"`
	// MayDisrupt is false while this member must not be stopped. MayDisruptReason then says why.
	MayDisrupt       bool   `json:"may_disrupt"`
	MayDisruptReason string `json:"may_disrupt_reason,omitempty"`
	// Message names the missing condition, for people; an unready member has one.
	Message string `json:"message,omitempty"`
	// Fault names a fault of a ready member, for people; rollouts ignore it.
	Fault string `json:"fault,omitempty"`
	// Version of the server that runs.
	Version string `json:"version,omitempty"`
	// DataFormat is the version of the data on the disk, where the workload has one: an older server may
	// be unable to read it.
	DataFormat string `json:"data_format,omitempty"`
}

// TransferRequest asks to move leadership off ExpectedLeader, which is this member.
type TransferRequest struct {
	ExpectedLeader string `json:"expected_leader"`
	// Candidates, best first; no other member is chosen.
	Candidates []string `json:"candidates"`
}

// Transferred is a confirmed hand-over.
type Transferred struct {
	// Moved: this call moved leadership. False: another member led already, which is success.
	Moved bool `json:"moved"`
	// Leader now, and its epoch.
	Leader string `json:"leader"`
	Epoch  uint64 `json:"epoch,omitempty"`
}

// SetRequest is one change of the workload's set of members. A repeated change has no further effect.
type SetRequest struct {
	// Do is "add" (a member without a vote), "promote" (gives the vote) or "remove".
	Do string `json:"do"`
	// Slot is the member's name. A leader removes itself only with the setting hand_over = "stop".
	Slot string `json:"slot"`
	// Member is the workload's own id of the intended member; empty: it has none yet. Another id under the
	// same name is left alone.
	Member string `json:"member,omitempty"`
	// Address of the Slot in the overlay, for "add".
	Address string `json:"address,omitempty"`
}

// Error is the body of a failed call.
type Error struct {
	// Message for people.
	Message string `json:"message"`
}
