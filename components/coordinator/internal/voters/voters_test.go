package voters_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/voters"
	"cadre.dev/store/storetest"
)

func TestVotersOfRealConsul(t *testing.T) {
	c := storetest.StartConsulCluster(t, 3)
	set := make([]*voters.Voters, len(c.Servers))
	for i, s := range c.Servers {
		var err error
		if set[i], err = voters.New(s.Addr, c.ManagementToken); err != nil {
			t.Fatal(err)
		}
	}
	index := func(node string) int {
		return slices.IndexFunc(c.Servers, func(s *storetest.ClusterServer) bool { return s.Name == node })
	}
	// whole is the leader of a set of n healthy voters.
	whole := func(from *voters.Voters, n int) (leader string) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			servers, err := from.List(t.Context())
			leader = ""
			healthy := 0
			for _, s := range servers {
				if s.Healthy && s.Voter {
					healthy++
				}
				if s.Leader {
					leader = s.Node
				}
			}
			if err == nil && healthy == n && len(servers) == n && leader != "" {
				return leader
			}
			if time.Now().After(deadline) {
				t.Fatalf("not %d healthy voters: %+v, %v", n, servers, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	leader := whole(set[0], 3)
	var others []string
	for _, s := range c.Servers {
		if s.Name != leader {
			others = append(others, s.Name)
		}
	}
	if moved, err := set[0].Transfer(t.Context(), others[0], ""); err != nil || moved {
		t.Errorf("a follower's leadership moved: %t, %v", moved, err)
	}
	if moved, err := set[0].Transfer(t.Context(), leader, "stranger"); err == nil || moved {
		t.Errorf("the leadership moved to an unknown server: %t, %v", moved, err)
	}
	if moved, err := set[index(leader)].Transfer(t.Context(), leader, others[1]); err != nil || !moved {
		t.Fatalf("transfer: %t, %v", moved, err)
	}
	for got := ""; got != others[1]; got = whole(set[0], 3) {
		if got == leader {
			t.Logf("%s still leads", leader)
		}
	}
	if _, err := set[0].Remove(t.Context(), others[0]); !errors.Is(err, voters.ErrHealthy) {
		t.Errorf("a healthy server is removed: %v", err)
	}
	c.Servers[index(leader)].Kill()
	alive := set[index(others[1])]
	if _, err := alive.Remove(t.Context(), "stranger"); err == nil {
		// The lost server counts as unhealthy only after a while.
		t.Log("removing an unknown server changed nothing")
	}
	deadline, left := time.Now().Add(time.Minute), false
	for {
		removed, err := alive.Remove(t.Context(), leader)
		left = left || removed // it may leave Raft in one call, and gossip in the next
		if err == nil && left {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lost server is not removed: %t, %v", removed, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	whole(alive, 2)
	if removed, err := alive.Remove(t.Context(), leader); err != nil || removed {
		t.Errorf("removed again: %t, %v", removed, err)
	}
}
