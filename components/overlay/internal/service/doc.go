// Package service makes one stream of a Session a [net.Conn] that HTTP, gRPC or any
// other library of connections may use: any number of goroutines, deadlines, a half-close,
// and a Close that does not take back what was written.
//
// It knows nothing of who may open a stream, and of no port.
package service
