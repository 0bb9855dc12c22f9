// Package supervise runs the Consul client agent of this CVM as a child
// process: writes its configuration, starts it again when it ends, reloads it
// when credentials were renewed, and says whether it is ready.
//
// Configuration and keys are written to a run folder that must be a tmpfs; the
// data folder is on the preserved disk, so that the node keeps its id.
package supervise
