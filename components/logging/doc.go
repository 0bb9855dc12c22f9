// Package logging writes log/slog records through go-hclog, so that the lines of agents and
// coordinators read like the lines of the Consul processes of the same CVM.
//
// Code logs with slog: constant messages, facts as attributes with shared keys. Only main functions
// use this package.
package logging
