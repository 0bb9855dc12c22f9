// Package compose turns an unmodified compose file into services that the local
// runtime can start. What it cannot honour it refuses, naming service and key;
// what has no meaning on one machine (published ports, resource limits, labels)
// becomes a note for the log. Nothing that changes behaviour is dropped silently.
package compose
