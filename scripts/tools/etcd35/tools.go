//go:build tools

// Package tools pins an etcd 3.5 server, from which the end-to-end tests update members to 3.6.
package tools

import _ "go.etcd.io/etcd/server/v3"
