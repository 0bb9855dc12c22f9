// Package relock makes locks: it asks apt-get for the present dependencies of packages, pip for the
// dependencies of wheels, and builds other projects' programs for their digests. apt checks the
// archive's signatures; from there on everything goes by digest.
package relock
