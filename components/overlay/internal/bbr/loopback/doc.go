// Package loopback has the benchmarks of the congestion controller on real sockets. The
// benchmarks have a package of their own so that the controller's tests, which have no
// goroutine, run without the race detector.
package loopback
