// Package bom describes the content of an image: an SPDX document with its packages, their versions
// and licences, the licence texts of Go modules, and a provenance statement with every input of the
// build by its digest.
//
// A licence is known only where a file of the package itself states it: a machine-readable
// copyright file, a wheel's own expression, a text that is known word for word. Everything else is
// NOASSERTION, with the found texts as comment.
package bom
