// Package upgrade knows the cost of a change of a workload's version: allowed steps, versions that need another one
// first, the point of no return, and the way back. The rules are data (one JSON file per software); Judge is pure.
package upgrade
