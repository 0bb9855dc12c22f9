// Package peering says who may talk to whom on the overlay, and where the
// coordinators are.
//
// The port rules are a pure function of the specs: default deny, and both sides
// get their half from the same function, so they cannot disagree. Discovery of
// the other coordinators asks the platform, whose word only locates: who a
// coordinator is, its certificate proves.
package peering
