// Package admission carries a first contact: one stream between a Boot that nobody has
// admitted yet and a coordinator, over TLS in which the Boot shows nothing but the
// possession of its key. What is said on it is not this package's.
package admission
