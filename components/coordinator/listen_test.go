package coordinator

import (
	"strings"
	"testing"

	"cadre.dev/overlay"
)

// TestTOK18_StatusListensOnLoopbackOnly: metrics and health are not for the gateway.
func TestTOK18_StatusListensOnLoopbackOnly(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "127.0.0.1:7070": true, ":7070": false, "0.0.0.0:7070": false, "[::]:7070": false, "10.0.0.1:7070": false, "7070": false,
	} {
		c := Config{Cluster: "demo", Slot: "coordinator-0", Replicas: 1, Gateway: overlay.Gateway{Domain: "gw"}, StatusListen: address}
		err := c.complete()
		if (err == nil) != good || !good && !strings.Contains(err.Error(), "status listen") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
