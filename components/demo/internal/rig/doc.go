// Package rig sets a whole Cadre up on one machine the way an operator would:
// it runs the cadre binary against the local cloud and reads what it prints. The
// demo, the benchmark and the end-to-end tests are stories told with it.
package rig
