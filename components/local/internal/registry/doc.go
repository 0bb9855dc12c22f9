// Package registry serves the images of an OCI layout folder as a container registry, for the local
// cloud, `cadre compose pin` and container engines.
//
// The annotation org.opencontainers.image.ref.name of its entry in the layout's index names an
// image, "<name>:<tag>". The folder may change while it is served: a new build's images can be
// pulled at once. Nothing can be pushed.
package registry
