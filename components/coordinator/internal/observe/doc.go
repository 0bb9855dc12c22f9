// Package observe joins what is known about a group into one value for the
// planner: the records, the platform's list and the agents' reports. The leader
// plans from it, and every coordinator answers "what would be done and why"
// from the same code.
package observe
