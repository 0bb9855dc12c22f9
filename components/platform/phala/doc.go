// Package phala drives CVMs through Phala Cloud's REST API (version
// 2026-05-22) and anything that speaks its subset, such as the local cloud.
//
// Reads are repeated with back-off; calls with an effect are made once, and
// their error tells whether they certainly had none (errors.Is
// platform.ErrRefused) or whether the caller must read back. Creates are
// serialised per Client, since the platform rejects concurrent ones.
//
// Nothing that this package returns is evidence: it is the platform's word.
package phala
