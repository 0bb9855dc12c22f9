//go:build tools

// Package tools pins an older patch release of Consul, from which a test updates servers.
package tools

import _ "github.com/hashicorp/consul"
