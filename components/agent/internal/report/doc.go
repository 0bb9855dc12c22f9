// Package report converts the agent's state into the wire form of one Report.
package report
