// Package declared tests the table of programs in scripts/tools.sh: what make finds is
// what stands there, on every machine.
package declared
