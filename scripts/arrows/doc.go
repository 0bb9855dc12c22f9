// Package arrows compares the table of modules in docs/explanation/architecture.md with their imports.
package arrows
