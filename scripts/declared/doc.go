// Package declared tests the table of programs in scripts/tools.sh: make finds exactly the listed
// programs, on every machine.
package declared
