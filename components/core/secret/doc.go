// Package secret has the type in which secret bytes pass through the program:
// it prints, logs and encodes as [redacted] wherever it is put, and is compared
// in constant time. Taking the bytes out is a call with a name that can be
// searched for.
package secret
