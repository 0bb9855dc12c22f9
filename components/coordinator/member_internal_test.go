package coordinator

import (
	"net/netip"
	"testing"

	"cadre.dev/coordinator/internal/status"
)

// TestAMemberIsTheConsulServerOfTheCVM by the address of the Raft leader.
func TestAMemberIsTheConsulServerOfTheCVM(t *testing.T) {
	self := netip.MustParseAddr("127.50.0.2")
	for leader, want := range map[string]status.Member{
		"127.50.0.2:8300": {Known: true, Ready: true, Role: "leader", Leader: "coordinator-1"},
		"127.50.0.3:8300": {Known: true, Ready: true, Role: "follower", Leader: "coordinator-2"},
		"127.50.0.9:8300": {Known: true, Ready: true, Role: "follower"},
		"":                {Message: "Consul has no Raft leader"},
		"127.50.0.3":      {Message: "Consul names a Raft leader without an address: 127.50.0.3"},
	} {
		if got := memberOf(leader, self, 3); got != want {
			t.Errorf("%q: %+v, want %+v", leader, got, want)
		}
	}
}
