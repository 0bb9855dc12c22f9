// Package callers shares the capacity of the operators' API among its callers, so that
// unauthenticated callers cannot take the capacity of operators (INP-04, INP-08).
//
// A connection is a newcomer until its TLS handshake is over. The connection is then unauthenticated until a
// call brings an operator's token that Consul knows, and from then on an operator's. Each class has
// places of its own. Newcomers and unauthenticated connections have a limited lifetime and a
// limited number of bytes, and never keep another caller out. When their places are taken, the
// source with the most connections loses its oldest one. A new connection thus always gets a place.
// With a token it soon has an operator's place, and keeps it during any crowd.
//
// A token is checked when the headers of a call have arrived, before the rest of the call is read.
// A token that Consul has confirmed is accepted at once and checked again in the background. An
// unknown token waits in the queue of its source for one of a few concurrent checks, and the
// sources take turns. These checks decide about capacity alone. Consul decides about the rights of
// a token, at each read and write with it.
package callers
