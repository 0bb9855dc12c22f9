// Package overlaynode runs one overlay node, or one rendezvous server, as a process of
// its own, so that it can live in a network namespace: its libraries open their sockets
// there. The process is the caller's own program, started again.
//
// The parent talks to it in lines of JSON: a [Request] in, a [Response] out.
package overlaynode
