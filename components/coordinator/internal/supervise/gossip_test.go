package supervise

import (
	"encoding/json"
	"net/netip"
	"testing"

	"cadre.dev/core/secret"
)

// OVL-19: a server's gossip and RPC are bound to loopback, so only a Session of an admitted Peer
// reaches them.
func TestOVL19_GossipIsReachableThroughSessionsOnly(t *testing.T) {
	c := Config{Node: "coordinator-0", VIP: netip.MustParseAddr("127.50.0.1"), GossipKey: secret.FromString("key"), DataDir: t.TempDir()}
	text, err := c.document(secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"bind_addr", "advertise_addr", "client_addr"} {
		value, _ := doc[field].(string)
		if addr, err := netip.ParseAddr(value); err != nil || !addr.IsLoopback() {
			t.Errorf("%s is %q, want an address on loopback", field, value)
		}
	}
	if doc["encrypt"] != "key" || doc["disable_keyring_file"] != true {
		t.Errorf("encrypt %v, disable_keyring_file %v", doc["encrypt"], doc["disable_keyring_file"])
	}
}

// TestTOK01_ServersAreReachableFromTheirCVMOnly covers TOK-18, too.
func TestTOK01_ServersAreReachableFromTheirCVMOnly(t *testing.T) {
	c := Config{Node: "coordinator-0", VIP: netip.MustParseAddr("127.50.0.1"), DataDir: t.TempDir()}
	text, err := c.document(secret.Value{})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Client    string            `json:"client_addr"`
		Addresses map[string]string `json:"addresses"`
		Ports     map[string]int    `json:"ports"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Client != "127.0.0.1" {
		t.Errorf("client_addr %q", doc.Client)
	}
	for name, port := range doc.Ports {
		if open := port > 0; open != (name == "http" || name == "grpc") {
			t.Errorf("port of %s is %d", name, port)
		}
	}
	if doc.Addresses["http"] != "127.0.0.1" || doc.Addresses["grpc"] != "127.0.0.1" || doc.Ports["grpc"] != 8502 {
		t.Errorf("addresses %v, ports %v", doc.Addresses, doc.Ports)
	}
	for _, vip := range []string{"0.0.0.0", "10.0.0.1"} {
		c.VIP = netip.MustParseAddr(vip)
		if _, err := c.document(secret.Value{}); err == nil {
			t.Errorf("a server on %s", vip)
		}
	}
}
