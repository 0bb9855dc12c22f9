// Package cloud is the control plane of the local cloud: apps, revisions, CVMs
// and the operations on them, with the habits of the real one. A call that
// changes a CVM is accepted at once and carried out later; while it runs, the
// CVM is busy. Records are persisted before the effect they announce.
//
// It knows neither HTTP (package api) nor processes (package machine).
//
//	accepted ──(lag)──► updating / stopping / starting / restarting ──► running | stopped
//	                                                      deleting ──► gone
package cloud
