// Package grpcconn runs gRPC over one connection that exists already, such as
// a control connection of an overlay Session or the stream of a first contact.
// There is nothing to reconnect to: when the connection dies, so does the
// client or the server on it, and the owner of the connection makes another.
//
// Handlers learn who calls from [PeerFromContext]; the Session has
// authenticated the name, the caller's messages have no say in it.
package grpcconn
