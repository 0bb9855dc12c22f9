// Package appcompose builds app-compose.json like a cloud server: from the caller's fields and the
// server's defaults, sorted and compact. A caller that sends every key knows the bytes beforehand;
// any other caller takes the hash from the reply.
package appcompose
