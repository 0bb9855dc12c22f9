// Package rig sets up a whole Cadre on one machine like an operator: it runs the cadre binary
// against the local cloud and reads its output. The demo, the benchmark and the end-to-end tests
// use it.
package rig
