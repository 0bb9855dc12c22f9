// Package grpcserver makes the gRPC servers of Cadre, each with bounds on a caller's use
// of memory: bytes of headers, calls at once, and bytes of a message. It also bounds the
// time for a call that is begun and not sent to its end (INP-01, INP-04, INP-08). Every
// server is made here, so that each has the bounds.
//
// The defaults of gRPC for Go, and the changes by New:
//
//   - The default accepts 16 MiB of headers for each call, in any number of frames, and
//     holds the decoded headers until the last frame. With a limit it ends the connection
//     with the first frame beyond.
//   - By default, a call without a message holds its handler for as long as the connection
//     lives: only the caller's own deadline would end it. New ends it after HalfSent.
//   - By default, gRPC raises the flow control window of each call up to 16 MiB when data
//     comes fast, and holds that much unread data. With fixed windows it holds 64 KiB, and
//     a message up to its bound once a handler reads.
//   - Its buffers of 64 KiB for each connection stay while the connection does nothing.
//
// The owner of a connection bounds unfinished handshakes and incomplete headers: a Session
// ends such a connection, and the operators' API counts it among the unauthenticated ones.
package grpcserver
