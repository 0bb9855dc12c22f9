// Package plan measures the cost of one decision of the planner, and its growth with the group.
package plan
