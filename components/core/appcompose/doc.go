// Package appcompose knows app-compose.json, the document whose raw bytes dstack
// measures: the compose hash is their SHA-256 and nothing normalises them. It
// writes the document, in the sorted compact form, and judges one that somebody
// else wrote: by a closed list of keys and values, since a key that a guest knows
// and Cadre does not may choose what runs (ATT-16, ATT-17). Coordinators judge by
// it what they allow and whom they admit, agents and the CLI judge coordinators by it.
package appcompose
