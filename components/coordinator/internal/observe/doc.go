// Package observe joins all data about a group into one value for the planner: the records, the
// platform's list and the agents' reports. The leader plans from it. Every coordinator answers
// which action is next, and why, with the same code.
package observe
