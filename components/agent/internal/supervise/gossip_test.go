package supervise

import (
	"net/netip"
	"testing"
)

// OVL-19: gossip is bound to the Slot's address on loopback, so that the only way to
// it is a Session of an admitted Peer; and it is encrypted besides.
func TestOVL19_GossipIsReachableThroughSessionsOnly(t *testing.T) {
	s := Settings{NodeName: "db-0", Address: netip.MustParseAddr("127.50.1.1"), GossipKey: "key"}
	c := s.config(t.TempDir(), t.TempDir(), 8500)
	for _, field := range []string{"bind_addr", "advertise_addr", "client_addr"} {
		text, _ := c[field].(string)
		if addr, err := netip.ParseAddr(text); err != nil || !addr.IsLoopback() {
			t.Errorf("%s is %q, want an address on loopback", field, text)
		}
	}
	if c["encrypt"] != "key" || c["disable_keyring_file"] != true {
		t.Errorf("encrypt %v, disable_keyring_file %v", c["encrypt"], c["disable_keyring_file"])
	}
}
