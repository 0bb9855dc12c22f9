// Package lint reports the parts of a compose text that keep its hash from fixing the code that
// runs (threat rows ATT-14, ATT-16, SUP-01): images that may change, variables that the host fills
// in, files that are not measured, mounts that reach the guest agent's socket, and YAML that two
// readers could see differently.
//
// Three readers must agree before a text has no finding: the YAML tree of the rules, the line
// scanner of core/group that every coordinator runs, and compose-go, which loads the text under two
// different environments and must get the same services from both.
package lint
