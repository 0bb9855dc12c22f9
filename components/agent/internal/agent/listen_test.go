package agent

import (
	"strings"
	"testing"
)

// TestTOK18_WildcardListenersAreRefused: the workloads' interface is on loopback or
// the agent does not start.
func TestTOK18_WildcardListenersAreRefused(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7070": "", "[::1]:7070": "", "127.1.2.3:0": "",
		":7070": "LISTENER_FORBIDDEN", "0.0.0.0:7070": "LISTENER_FORBIDDEN", "[::]:7070": "LISTENER_FORBIDDEN",
		"10.0.0.1:7070": "LISTENER_FORBIDDEN", "localhost:7070": "LISTENER_FORBIDDEN", "7070": "--api",
	} {
		err := loopback("--api", address)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
