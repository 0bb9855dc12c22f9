// Package render turns data into what people read: pure functions from values
// to text. Time is an argument, colour is a choice of the caller.
package render
