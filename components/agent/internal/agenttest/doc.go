// Package agenttest is the environment of the agent's tests: a simulated cloud with guest agents, a
// TLS pass-through gateway, and a coordinator that really verifies, issues and serves control
// sessions. Only the decisions are scripted.
package agenttest
