// Package imagestore pulls images by digest and unpacks each once, for every CVM of the
// cloud.
//
//	reference ── digest ──► DIR/<hex>/ there? ──► image.json, root/
//	                          │ no
//	                          └─ registry ── manifest, config, layers, each by its digest ──► DIR/.new-<hex> ──► DIR/<hex>/
//
// The digest of the reference is all that is trusted: manifest and config must hash to
// what names them, and each layer's content to the config's diff id. What lies in the
// store is never written to again: services get it as a lower layer.
package imagestore
