// Package appcompose knows app-compose.json, the document whose raw bytes dstack
// measures: the compose hash is their SHA-256 and nothing normalises them. It
// writes the sorted compact form, and says what is odd about bytes that were
// delivered.
package appcompose
