// Package images is the component that makes Cadre's OCI images: from recipes and
// locks that are checked in, without a container daemon, without root, and with the
// same digest on every machine.
//
//	recipes/*.hcl ─┐
//	recipes/*.lock ┼─► fetch by hash ─► merge ─► layers ─► OCI layout ─► registry
//	go.work        ┘      (cache)
//
// Everything is below cmd/cadre-images and internal; docs/guides/images.md is for its users.
package images
