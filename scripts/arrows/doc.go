// Package arrows compares the table of modules in docs/architecture.md with their imports.
package arrows
