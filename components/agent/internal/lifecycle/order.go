package lifecycle

import (
	"time"

	"cadre.dev/core/rollout"
)

// Key names one order; equal keys are the same work.
type Key struct {
	Operation string       `json:"operation"`
	Verb      rollout.Verb `json:"verb"`
	Attempt   uint32       `json:"attempt"`
}

// Order is one step that the leader wants from this Boot.
type Order struct {
	Key
	// Deadline is absolute, by the coordinator's clock; zero means none.
	Deadline time.Time
	// Limit takes the place of Deadline: how long the step may take from its beginning
	// here. 0 means that Deadline counts.
	Limit time.Duration
	// ExpectedLeader is set when a transfer is ordered: it must lead for it (R54).
	ExpectedLeader string
	// Candidates for the transfer, best first.
	Candidates []string
	// WithoutHooks: the drain hands leadership over and runs no hooks.
	WithoutHooks bool
	// Service that is to be restarted.
	Service string
}

// Result is how far an Order got.
type Result struct {
	Key
	State       rollout.StepState `json:"state"`
	Message     string            `json:"message,omitempty"`
	Transferred bool              `json:"transferred,omitempty"`
	NewLeader   string            `json:"new_leader,omitempty"`
	At          time.Time         `json:"at"`
}
