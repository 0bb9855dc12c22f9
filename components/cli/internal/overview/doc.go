// Package overview judges the state of a whole cluster. Assess is a pure function from the facts that
// the operators' API and the platform gave to findings: each has a severity, an object, a text and the
// command that leads on.
package overview
