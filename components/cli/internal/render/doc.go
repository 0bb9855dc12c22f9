// Package render turns data into text for people: pure functions from values to text. Time is an
// argument, colour is a choice of the caller.
package render
