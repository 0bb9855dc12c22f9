// Package service makes one stream of a Session a [net.Conn] for HTTP, gRPC or any other
// library of connections. It supports any number of goroutines, deadlines, a half-close,
// and a Close that keeps written data on its way.
//
// It has no notion of ports, or of permissions to open a stream.
package service
