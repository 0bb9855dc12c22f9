package supervise

import (
	"net/netip"
	"strings"
	"testing"
)

// TestTOK01_ConsulIsReachableFromThisCVMOnly: a stolen token is of no use elsewhere,
// since the only API is the own CVM's, and TOK-18: nothing else listens.
func TestTOK01_ConsulIsReachableFromThisCVMOnly(t *testing.T) {
	doc := Settings{Address: netip.MustParseAddr("127.50.1.1")}.config("run", "data", HTTPPort)
	if doc["client_addr"] != "127.0.0.1" {
		t.Errorf("client_addr %v", doc["client_addr"])
	}
	for name, port := range doc["ports"].(map[string]int) {
		if open := port > 0; open != (name == "http" || name == "serf_lan" || name == "server") {
			t.Errorf("port of %s is %d", name, port)
		}
	}
	if _, set := doc["addresses"]; set {
		t.Error("addresses override client_addr")
	}
}

func TestTOK18_ConsulBindsLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "10.0.0.1", "::"} {
		_, err := Settings{Address: netip.MustParseAddr(address)}.write(t.TempDir(), t.TempDir(), HTTPPort)
		if err == nil || !strings.Contains(err.Error(), "LISTENER_FORBIDDEN") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := (Settings{}).write(t.TempDir(), t.TempDir(), HTTPPort); err == nil {
		t.Error("no address is taken")
	}
}

// TestTOK04_ACLCacheIsShort is what the real test measures.
func TestTOK04_ACLCacheIsShort(t *testing.T) {
	acl := Settings{}.config("run", "data", HTTPPort)["acl"].(map[string]any)
	for field, want := range map[string]any{"down_policy": "deny", "default_policy": "deny", "token_ttl": "5s", "policy_ttl": "5s", "role_ttl": "5s", "enable_token_persistence": false} {
		if acl[field] != want {
			t.Errorf("acl.%s is %v, want %v", field, acl[field], want)
		}
	}
}
