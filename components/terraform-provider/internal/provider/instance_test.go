package provider_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const opportunistic = `
  update_policy {
    type              = "OPPORTUNISTIC"
    min_ready_seconds = 0
  }
`

const instances = `
resource "cadre_instance" "web" {
  for_each = toset(["0", "1", "2"])
  group    = cadre_group.web.name
  ordinal  = tonumber(each.key)
  revision = cadre_group.web.revision
}
`

// revisions are the proven revisions of the slots of web, by slot.
func (c *cluster) revisions(t *testing.T) map[string]string {
	t.Helper()
	list, err := c.client.Instances(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, i := range list {
		out[i.Slot] = i.Observed
	}
	return out
}

// In an OPPORTUNISTIC group a targeted apply updates exactly one slot, and an apply of all
// updates them one after the other.
func TestInstancesAreUpdatedOneByOne(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.watched() // three slots at once
	f.write("main.tf", groupOf("one", 3, opportunistic)+instances)
	f.must("apply", "-auto-approve")
	before := c.revisions(t)

	f.write("main.tf", groupOf("two", 3, opportunistic)+instances)
	wants(t, "a plan", f.must("plan", "-target=cadre_group.web"), "opportunistic: updates are OPPORTUNISTIC")
	f.must("apply", "-auto-approve", "-target=cadre_group.web")
	if now := c.revisions(t); now["web-0"] != before["web-0"] || now["web-1"] != before["web-1"] || now["web-2"] != before["web-2"] {
		t.Fatalf("applying the group moved slots: %v, before %v", now, before)
	}
	f.write("main.tf", groupOf("two", 3, opportunistic)+instances+"resource \"cadre_instance\" \"seen\" {\n  group   = cadre_group.web.name\n  ordinal = 0\n}\n")
	f.must("apply", "-auto-approve", "-target=cadre_instance.seen")
	if now := c.revisions(t); now["web-0"] != before["web-0"] {
		t.Errorf("an instance without a revision moved: %v, before %v", now, before)
	}
	f.write("main.tf", groupOf("two", 3, opportunistic)+instances)
	wants(t, "a plan of one", f.must("plan", `-target=cadre_instance.web["1"]`), "Slot web-1 is updated")
	f.must("apply", "-auto-approve", `-target=cadre_instance.web["1"]`)
	now := c.revisions(t)
	if now["web-1"] == before["web-1"] || now["web-0"] != before["web-0"] || now["web-2"] != before["web-2"] {
		t.Fatalf("after a targeted apply: %v, before %v", now, before)
	}

	f.must("apply", "-auto-approve")
	for slot, revision := range c.revisions(t) {
		if revision != now["web-1"] {
			t.Errorf("%s is at %s, want %s", slot, revision, now["web-1"])
		}
	}
	wants(t, "nothing to do", f.must("plan"), "No changes")
	f.must("destroy", "-auto-approve")
}

// Of three voters one is down: no other one is stopped, and the reason is said.
func TestAnInstanceThatTheQuorumNeedsIsNotUpdated(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	var down atomic.Bool
	c := startCluster(t, func(w *wholetest.Whole) {
		w.Member = func(slot string) *controlv1.MemberView {
			caughtUp := true
			m := &controlv1.MemberView{
				Role: controlv1.Role_ROLE_FOLLOWER, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, MayDisrupt: true, QuorumMember: true, CaughtUp: &caughtUp,
				Leader: "web-2", Epoch: 1, Voters: []string{"web-0", "web-1", "web-2"},
			}
			if slot == "web-2" {
				m.Role = controlv1.Role_ROLE_LEADER
			}
			if slot == "web-0" && down.Load() {
				m.Ready, m.Message = false, "disk full"
			}
			return m
		}
	})
	f := newFolder(t, program)
	const voters = opportunistic + "  workload {\n    kind = \"custom\"\n    settings = {\n      http = \"127.0.0.1:9900\"\n      voters = true\n    }\n  }\n"
	f.write("main.tf", groupOf("one", 3, voters))
	f.must("apply", "-auto-approve")
	f.write("main.tf", groupOf("two", 3, voters)+instances)
	// A slot that is down and outdated would be updated at once; this one is not outdated.
	f.must("apply", "-auto-approve", `-target=cadre_instance.web["0"]`)
	before := c.revisions(t)
	down.Store(true)
	c.Eventually("a slot that is down", func() error {
		i, err := c.client.Instance(t.Context(), "web-0")
		if err == nil && i.Status.State == client.StateAvailable {
			return errAvailable
		}
		return err
	})
	wants(t, "a plan meanwhile", f.must("plan", "-target=cadre_group.web"), "Slot web-0 is Unavailable", "disk full")
	out, ok := f.run("apply", "-auto-approve", `-target=cadre_instance.web["1"]`)
	if wants(t, "without a quorum", out, "Slot web-1 is not updated"); ok || !strings.Contains(out, "quorum: ") {
		t.Errorf("a voter that the others need was updated:\n%s", out)
	}
	if now := c.revisions(t); now["web-1"] != before["web-1"] {
		t.Error("web-1 moved")
	}
}

type stillAvailable struct{}

func (stillAvailable) Error() string { return "it is still available" }

var errAvailable = stillAvailable{}
