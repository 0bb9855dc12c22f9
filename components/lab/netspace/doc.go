// Package netspace makes network namespaces without a name: when the last
// process, socket and file descriptor of one goes, the kernel removes it with
// everything in it, however the program ended. It also puts interfaces, routes,
// settings and packet rules into them.
package netspace
