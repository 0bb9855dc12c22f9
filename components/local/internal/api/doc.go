// Package api is the local cloud's REST API: the subset of Phala Cloud's that
// drivers use, with its habits (202 without task state, several forms of ids and
// errors, no idempotency), and the local cloud's own endpoints under /_local/,
// which only the host may reach.
package api
