// Package limit bounds how many unauthenticated callers are served at once. Idle callers
// keep no other caller out: when every place is taken, the limiter evicts the caller that
// has been overdue for longest (INP-04, INP-06).
package limit
