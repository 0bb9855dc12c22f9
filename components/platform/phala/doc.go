// Package phala drives CVMs through Phala Cloud's REST API (version 2026-05-22) and through servers
// with the same subset, such as the local cloud.
//
// Reads are repeated with back-off. Calls with an effect are made once: their error says whether
// they certainly had none (errors.Is platform.ErrRefused) or whether the caller must read back.
// Creates are serialised per Client, since the platform rejects concurrent ones.
//
// Nothing that this package returns is evidence: it is the platform's statement.
package phala
