package overview

import (
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// Facts are the answers about one cluster at one moment. A part without an answer is empty, and
// Unread has the reason.
type Facts struct {
	Now     time.Time
	Cluster string
	// Version of this program.
	Version string
	// Simulated: the root of trust is not Intel's.
	Simulated bool
	// Coordinators of the cluster, by name.
	Coordinators []Coordinator
	// Halted is why no coordinator can lead, from any of them.
	Halted     string
	Groups     []Group
	Slots      []group.InstanceStatus
	Operations []operation.Operation
	Requests   []client.Asked
	Overrides  []client.Override
	// Admissions of all slots. Machines are the coordinators', by the trust of the context.
	Admissions, Machines []policy.AdmissionStatus
	TCB                  policy.TCBOverview
	// CAEnds is the end of the pinned CA; zero: unknown.
	CAEnds time.Time
	// Backup is the time of the last backup; nil: the coordinators do not report it.
	Backup *time.Time
	// Unread are the parts that no coordinator answered, each with its error.
	Unread []string
}

// Coordinator is one coordinator, as the platform and itself describe it.
type Coordinator struct {
	Name string `json:"name"`
	// CVM is the platform's word for its state; empty: the platform was not asked.
	CVM string `json:"cvm,omitempty"`
	// Answered: it answered. Leader and Term are by its own answer.
	Answered bool   `json:"answered"`
	Leader   string `json:"leader,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	Version  string `json:"version,omitempty"`
	// Problem is why it did not answer, or why it does not prove itself.
	Problem string `json:"problem,omitempty"`
	// Refused: it refuses the token of the context, so that nothing is known from it.
	Refused bool `json:"refused,omitempty"`
	// Untrusted: the answering program is not a coordinator of this cluster.
	Untrusted bool `json:"untrusted,omitempty"`
}

// Group is one group with its status.
type Group struct {
	Name      string `json:"name"`
	Replicas  int    `json:"replicas"`
	Available int    `json:"available"`
	Updated   int    `json:"updated"`
	// Target is the revision of the spec.
	Target       string `json:"target_revision,omitempty"`
	RolloutState string `json:"rollout_state,omitempty"`
	Message      string `json:"message,omitempty"`
	Deleting     bool   `json:"deleting,omitempty"`

	// Conditions of the group's status.
	Conditions []group.Condition `json:"-"`
}
