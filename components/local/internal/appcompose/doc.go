// Package appcompose builds app-compose.json the way a cloud server does: from what the
// caller sent, with the keys that the caller left out, sorted and compact. A caller that
// leaves none out knows the bytes beforehand; any other takes the hash from the reply.
package appcompose
