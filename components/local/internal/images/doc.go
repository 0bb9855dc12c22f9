// Package images maps image references of a compose file to programs of the host. The map replaces
// a registry: an image that is missing there cannot be pulled.
package images
