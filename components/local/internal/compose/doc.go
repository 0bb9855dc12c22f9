// Package compose turns an unmodified compose file into services that the local runtime can start.
// It rejects a key that it cannot honour, naming service and key. A key without a meaning on one
// machine (published ports, resource limits, labels) becomes a note for the log. No key that
// changes behaviour is dropped silently.
package compose
