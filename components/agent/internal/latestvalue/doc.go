// Package latestvalue holds values of which only the newest matters: a writer
// replaces the value, any number of readers wait for a newer one. Intermediate
// values may be skipped.
package latestvalue
