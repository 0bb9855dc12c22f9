// Package genesis makes a cluster: it allots the coordinators' app id, writes
// the trust file that their compose file carries, makes their CVMs, and proves
// them before it pins their CA.
//
// Each run continues where an earlier one ended: the context file, written
// before the first effect, holds the app id and the operator's token, and CVMs
// are found by their names.
package genesis
