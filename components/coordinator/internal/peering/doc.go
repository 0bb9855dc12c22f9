// Package peering decides which members may connect on the overlay, and locates the coordinators.
//
// The port rules are a pure function of the specs with default deny. Both sides get their half from
// the same function, so they cannot disagree. Discovery of the other coordinators asks the
// platform, whose answer only locates: a coordinator's certificate proves its identity.
package peering
