// Package become is the first program of a sandbox. It becomes the service's user with the
// service's capabilities and limits, and then runs the service's command.
//
// It is a separate program, static and small, because an image may contain only the service: no
// setpriv, no prlimit, no shell. It is bound into each root at Path, read-only, and also serves
// health checks and commands from outside.
package become
