// Package bom says what is in an image: an SPDX document with its packages, their versions
// and licences, the licence texts of Go modules, and a provenance statement with every
// input of the build by its digest.
//
// A licence is said to be known only where a file of the package itself says it: a
// machine-readable copyright file, a wheel's own expression, a text that is known word for
// word. Everything else is NOASSERTION, with what was found as comment.
package bom
