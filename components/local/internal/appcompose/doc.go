// Package appcompose builds app-compose.json the way a cloud server does: from
// the caller's fields plus keys the caller never sent, sorted and compact. A
// caller cannot reproduce the bytes and must take the hash from the reply.
package appcompose
