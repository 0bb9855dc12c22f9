// Package report turns what the agent knows into the wire form of one Report.
package report
