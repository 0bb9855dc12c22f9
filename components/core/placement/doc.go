// Package placement chooses the platform's node for a new CVM, and judges the places of the present
// CVMs. It is pure: the same input gives the same answer, in any order of the input.
//
// A disk stays with its CVM, so only a creation or a replacement chooses. Rules of the spec are
// preferences, or hard with `require`: then a CVM that would break a rule is not made, and the
// answer names the way out.
package placement
