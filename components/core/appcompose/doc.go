// Package appcompose knows app-compose.json, the document whose raw bytes dstack measures: the
// compose hash is their SHA-256, without normalisation. The package writes the document in the
// sorted compact form. It judges a document from another author by a closed list of keys and
// values, because a key that a guest knows and Cadre does not may choose the code that runs
// (ATT-16, ATT-17). Coordinators judge by this list when they allow and admit; agents and the CLI
// judge coordinators by it.
package appcompose
