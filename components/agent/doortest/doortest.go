// Package doortest lends the agent's door, and a Machine with all that an agent has for the
// service layer, to tests of what is on both sides of them: the
// agent's part of the way and the coordinators' part know nothing of each other, and the
// modules that they are in do not import each other.
package doortest

import "cadre.dev/agent/internal/door"

type (
	// Door is where the workloads of one machine find Consul.
	Door = door.Door
	// Config makes a Door.
	Config = door.Config
	// Way is how coordinators are reached.
	Way = door.Way
	// Coordinator is one that may be asked.
	Coordinator = door.Coordinator
)

// New makes a Door that answers with an error until it is opened.
func New(cfg Config) *Door { return door.New(cfg) }
