// Package agents plays the agents of a benchmark: first contact, the exchange of
// evidence, retries, control sessions and renewals as cadre.dev/agent does them, which
// must not be imported here. What an agent checks for its own sake costs the
// coordinators nothing and is checked only now and then.
package agents
