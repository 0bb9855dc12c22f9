// Package ours runs nodes of package overlay as ends of a measurement. A [Node] describes one in
// JSON; build.go alone turns it into an overlay.Config, so a new carrier or path of the overlay is
// switched on there.
package ours
