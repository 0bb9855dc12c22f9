// Package logging writes log/slog records through go-hclog, so that the lines of
// agents and coordinators read like those of the Consul processes beside them.
//
// Code logs with slog: constant messages, facts as attributes with shared keys.
// This package is for main functions only.
package logging
