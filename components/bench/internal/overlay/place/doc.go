// Package place has the networks that measurements run in: two hosts joined by
// one clean cable. Slow, lossy and translated networks come from the NAT lab.
package place
