// Package kmsauth is the part of dstack's KMS that asks an authorisation webhook before it gives
// keys to a guest. An answer that is missing or unreadable is a refusal. Errors have the words that
// a guest reports to its host as boot error.
package kmsauth
