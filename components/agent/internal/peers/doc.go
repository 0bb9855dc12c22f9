// Package peers reads the peer map of the wire contract into the overlay's.
package peers
