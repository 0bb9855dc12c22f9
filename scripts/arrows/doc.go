// Package arrows holds the table of modules in docs/architecture.md to what they import.
package arrows
