// Package admission carries a first contact: one stream between an unadmitted Boot and a
// coordinator, over TLS in which the Boot proves only the possession of its key. Other
// packages define the messages on it.
package admission
