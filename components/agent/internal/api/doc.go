// Package api is the HTTP interface for the workloads of this CVM, on loopback
// only. docs/reference/openapi-agent.yaml describes it; a test keeps both together.
package api
