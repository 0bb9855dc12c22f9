// Package imagestore pulls images by digest and unpacks each once, for every CVM of the cloud.
//
//	reference ── digest ──► DIR/<hex>/ there? ──► image.json, root/
//	                          │ no
//	                          └─ registry ── manifest, config, layers, each by its digest ──► DIR/.new-<hex> ──► DIR/<hex>/
//
// Only the digest of the reference is trusted: manifest and config must hash to their digests, and
// each layer's content to the config's diff id. A stored image is never written to again: services
// get it as a lower layer.
package imagestore
