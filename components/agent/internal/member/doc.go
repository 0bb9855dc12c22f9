// Package member keeps the newest view of the workload's member: it asks the
// driver once a second, five times a second while something is under way.
package member
