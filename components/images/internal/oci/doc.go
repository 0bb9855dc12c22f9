// Package oci writes images and the documents about them (artifacts that refer to an image) as an
// OCI image layout, and copies that to registries.
//
// Manifests are made here byte for byte, so that no library's new field changes a digest.
package oci
