// Package agents plays the agents of a benchmark: first contact, the exchange of evidence, retries,
// control sessions and renewals like cadre.dev/agent, which must not be imported here. An agent's
// own checks cost the coordinators nothing, and run only now and then.
package agents
