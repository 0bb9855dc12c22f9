package consulproxy_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/overlay"
	"cadre.dev/platform/officialtest"
)

// TestOfficialConsulClient runs npm's consul against a member's Consul proxy. Permitted requests
// work, and a forbidden request returns an error that the client shows. Coordinators write the
// catalog that the client reads.
func TestOfficialConsulClient(t *testing.T) {
	officialtest.Installed(t)
	spec := group.Spec{Name: groupName, Replicas: 2, Workload: group.Workload{Kind: group.WorkloadPatroni}}
	l := newLayer(t, spec)
	m, b := l.member(groupName, 0, "leader")
	_, other := l.member(groupName, 1, "follower")
	eventually(t, "the catalog has both members", func() error {
		entries, _, err := l.admin(0).Health().Service(groupName, "", true, nil)
		return is(len(entries), 2, err)
	})
	var tokens []string
	for _, one := range []boot{b, other} {
		token, err := l.coordinators[0].Token(t.Context(), l.specs[groupName], one.id.Slot, overlay.BootID(one.cert.Leaf))
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	// The member has a network of its own, and the client runs outside of it.
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t.Context(), ln, func(near net.Conn) {
		far, err := m.dial(machineConsul.String())
		if err != nil {
			_ = near.Close()
			return
		}
		_ = far.SetDeadline(time.Time{}) // a watch waits as long as it likes
		splice(near, far)
	})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	officialtest.Run(t, "npm consul", "consulproxy.mjs", "PORT="+port, "TOKEN="+tokens[0], "FOREIGN_TOKEN="+tokens[1], "GROUP="+groupName,
		"SLOT="+b.id.Slot, "OTHER_SLOT="+other.id.Slot, "SERVICE_PORT="+strconv.Itoa(5432))
}
