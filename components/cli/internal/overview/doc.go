// Package overview judges the state of a whole cluster. Assess is a pure function from the facts that
// the operators' API and the platform gave to findings: what a person should know, how urgent it is,
// and the command that leads on.
package overview
