package consulproxy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
)

func web() group.Spec   { return group.Spec{Name: "web", Replicas: 2} }
func other() group.Spec { return group.Spec{Name: "other", Replicas: 1} }

// The route goes through two Envoys and the overlay. A driver's report about its member decides
// where the route leads, and no request for replicas reaches the leader.
func TestARouteFollowsTheLeader(t *testing.T) {
	l := newLayer(t, database(3, "web"), web(), other())
	var members []*machine
	var boots []boot
	for n, role := range []string{"leader", "follower", "follower"} {
		m, b := l.member("pg", n, role)
		members, boots = append(members, m), append(boots, b)
	}
	caller, _ := l.member("web", 0, "none")
	mesh := l.mesh("web", 1, 2)
	master, replica := address(mesh, "pg-master"), address(mesh, "pg-replica")

	begin := time.Now()
	l.answers(caller, master, "pg-0", "pg-1", "pg-2")
	t.Logf("first answer of pg-master %v after all machines began", time.Since(begin))
	for _, m := range members {
		m.live(backendProxy)
	}
	l.leads(caller, "follower", boots[1], boots[2])
	reads(t, caller, replica, "pg-1", "pg-2")

	for round, next := range []int{1, 2, 0} {
		last := (next + 2) % 3
		members[last].say("follower", true)
		begin := time.Now()
		members[next].say("leader", true)
		l.answers(caller, master, members[next].name, members[(next+1)%3].name)
		t.Logf("round %d: %s answers %v after its driver said so", round, members[next].name, time.Since(begin))
		l.leads(caller, "leader", boots[next])
		l.leads(caller, "follower", boots[last], boots[(next+1)%3])
		reads(t, caller, replica, members[last].name, members[(next+1)%3].name)
	}

	// pg-0 leads. One replica is left, then none: the route has no target, and never the leader as
	// its target.
	members[1].say("follower", false)
	l.leads(caller, "follower", boots[2])
	reads(t, caller, replica, "pg-2")
	members[2].say("follower", false)
	l.leads(caller, "follower")
	settled(t, caller, replica)
	for range 10 {
		if who, err := caller.request(replica); err == nil {
			t.Fatalf("%s answers at a route without replicas", who)
		}
	}
	if who, err := caller.request(master); err != nil || who != "pg-0" {
		t.Errorf("pg-master: %s, %v", who, err)
	}
	members[1].say("follower", true)
	l.answers(caller, replica, "pg-1", "pg-0", "pg-2")
}

// reads has each request to a route answered by one of those, and each of them answer some.
func reads(t *testing.T, caller *machine, at string, from ...string) {
	t.Helper()
	settled(t, caller, at, from...)
	count := map[string]int{}
	for range 30 {
		who, err := caller.request(at)
		if err != nil {
			t.Fatalf("a read: %v", err)
		}
		count[who]++
	}
	for _, name := range from {
		if count[name] == 0 {
			t.Errorf("no read came to %s: %v", name, count)
		}
		delete(count, name)
	}
	if len(count) > 0 {
		t.Errorf("reads came to %v, and to be there are %v", count, from)
	}
}

// settled waits until an Envoy behaves as its admin socket shows: its listeners receive a change a
// moment later. Members get requests by turns, so a few requests in a row that reach each member
// prove it.
func settled(t *testing.T, caller *machine, at string, to ...string) {
	t.Helper()
	row, seen := 0, map[string]bool{}
	eventually(t, "requests go where the envoy says", func() error {
		who, err := caller.request(at)
		if err != nil {
			who = ""
		}
		if row++; err == nil && !slices.Contains(to, who) || err != nil && len(to) > 0 {
			row, seen = 0, map[string]bool{}
		}
		if row > 0 {
			seen[who] = true
		}
		if row < 6 || len(to) > 0 && len(seen) < len(to) {
			return fmt.Errorf("%d in a row; the last one: %q, %v", row, who, err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
