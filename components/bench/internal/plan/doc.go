// Package plan measures what one decision of the planner costs, and how that grows with
// the group.
package plan
