// Package images maps image references of a compose file to programs of the
// host. The map stands in for a registry: what is not in it cannot be pulled.
package images
