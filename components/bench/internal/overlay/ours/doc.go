// Package ours runs nodes of package overlay as ends of a measurement. A [Node]
// tells in JSON what to be; build.go alone turns it into an overlay.Config, so a
// carrier or path that the overlay learns is switched on there.
package ours
