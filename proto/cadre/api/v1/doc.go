// Package apiv1 is the wire contract of the coordinators' operator API, which package
// client calls and coordinator/internal/server serves. Callers present a Consul ACL
// token; a call is allowed when that token may read or write the KV keys that the call
// concerns. All but this page is generated from api.proto, policy.proto and recovery.proto.
package apiv1
