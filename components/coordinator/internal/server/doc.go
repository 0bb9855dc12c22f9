// Package server is the operators' API (cadre.api.v1) and the local health and
// metrics page. It decodes, calls and encodes, and is the only place that knows
// status codes.
//
// There is one permission system: a call does its KV reads and writes with the
// caller's own Consul token, so Consul's ACL decides, as for a plain KV edit.
package server
