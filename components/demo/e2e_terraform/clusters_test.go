package e2e_terraform

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"cadre.dev/client"
)

// enabled is the variable that make test-clusters sets.
const enabled = "CADRE_TEST_CLUSTERS"

// Every other folder of clusters/ follows its README: it is applied, rolled to another release by
// one hand-over with each slot on its instance, and destroyed.
func TestClustersAreAppliedRolledAndDestroyed(t *testing.T) {
	if os.Getenv(enabled) == "" {
		t.Skip("make test-clusters runs it: five clusters, some minutes")
	}
	for name, one := range map[string]struct {
		// groups, of which the first has three slots and a leader, and is rolled.
		groups []string
		// alone: one slot that does not lead is applied before the others.
		alone bool
		// secrets that the members have, at least.
		secrets int
	}{
		"postgres":     {groups: []string{"postgres", "app"}, secrets: 3},
		"etcd":         {groups: []string{"etcd", "etcd-app"}},
		"nats":         {groups: []string{"nats", "nats-app"}, secrets: 2},
		"consul":       {groups: []string{"consul"}, alone: true, secrets: 1},
		"patroni-demo": {groups: []string{"postgres", "webdemo", "app"}, secrets: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, name, 6*time.Minute, nil)
			s.run("plan", "-out="+s.planFile("first"))
			s.apply()
			c := s.dial()
			before := s.instances(c, one.groups)
			if one.alone {
				s.apply(fmt.Sprintf(`-target=cadre_instance.consul["%d"]`, s.follower(c, one.groups[0])), "release=2")
				if at := s.revisions(c, one.groups[0]); len(at) != 2 || at[s.target(c, one.groups[0])] != 1 {
					t.Errorf("one slot was updated, and revisions are %v", at)
				}
			}
			s.apply("release=2")
			s.run("plan", "-detailed-exitcode", "-var=release=2")
			if at := s.revisions(c, one.groups[0]); len(at) != 1 || at[s.target(c, one.groups[0])] != 3 {
				t.Errorf("revisions are %v, wanted is %s", at, s.target(c, one.groups[0]))
			}
			if after := s.instances(c, one.groups); !maps.Equal(before, after) {
				t.Errorf("instances were %v and are %v", before, after)
			}
			known, err := client.LoadContext(s.ContextFile())
			s.must("read the context", err)
			members := s.secrets()
			if len(members) < one.secrets {
				t.Errorf("members have %d secrets, at least %d are known of", len(members), one.secrets)
			}
			s.run("destroy", "-auto-approve")
			if left := s.cvms(); left != 0 {
				t.Errorf("%d CVMs are left", left)
			}
			s.hasNoSecret(known, members, "first")
		})
	}
}

// follower is the ordinal of a slot that does not lead.
func (s *stage) follower(c *client.Client, group string) int {
	s.Helper()
	list, err := c.Instances(s.ctx, group)
	s.must("list the instances", err)
	for _, i := range list {
		if i.Role == "follower" {
			return i.Ordinal
		}
	}
	s.Fatalf("nobody follows in %s: %+v", group, list)
	return 0
}

// target is the revision that a group's spec asks for.
func (s *stage) target(c *client.Client, group string) string {
	s.Helper()
	g, err := c.Group(s.ctx, group)
	s.must("read the group", err)
	return g.Spec.Revision()
}

// revisions counts the slots that proved each.
func (s *stage) revisions(c *client.Client, group string) map[string]int {
	s.Helper()
	list, err := c.Instances(s.ctx, group)
	s.must("list the instances", err)
	out := map[string]int{}
	leaders := 0
	for _, i := range list {
		out[i.Observed]++
		if i.Role == "leader" {
			leaders++
		}
	}
	if leaders != 1 {
		s.Errorf("%s has %d leaders", group, leaders)
	}
	return out
}
