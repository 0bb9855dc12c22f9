// Package become is what the first program of a sandbox does: it becomes the service's
// user with the service's capabilities and limits, and then runs the service's command.
//
// It is a program of its own, static and small, because an image need not hold anything
// but the service: no setpriv, no prlimit, no shell. It is bound into each root at Path,
// read-only, and serves health checks and commands from outside as well.
package become
