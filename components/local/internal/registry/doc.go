// Package registry serves the images of an OCI layout folder as a container registry
// does, for whoever pulls: the local cloud, `cadre compose pin`, a container engine.
//
// An image is known by the annotation org.opencontainers.image.ref.name of its entry in
// the layout's index, "<name>:<tag>". The folder may change while it is served: what a
// build writes there can be pulled at once. Nothing can be pushed.
package registry
