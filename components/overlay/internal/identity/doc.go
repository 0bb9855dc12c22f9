// Package identity holds the names of Peers and the checks that a TLS
// certificate must pass before it stands for one of them.
package identity
