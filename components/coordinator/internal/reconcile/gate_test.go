package reconcile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

func revisionOf(release string) string {
	s := spec(release)
	return s.Revision()
}

// measuredAs is the hash of the document that Cadre renders for a release.
func measuredAs(release string) string {
	raw, err := measure.New("demo", appcompose.Rules{}).Render("pg", spec(release).Template)
	if err != nil {
		return ""
	}
	return appcompose.Hash(raw)
}

func (w *world) record(key string, value any) {
	w.t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(key, raw)
}

func (w *world) remove(key string) {
	w.t.Helper()
	if err := w.store.Commit(w.t.Context(), store.Op{Kind: store.OpDelete, Key: key}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) gate() policy.GroupPolicy { return w.view().Gate.Groups["pg"].Value }

func (w *world) took() (evicted, retired []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.evicted), slices.Clone(w.retired)
}

func approving(release string) group.Spec {
	s := spec(release)
	s.UpdatePolicy.RequireApproval = true
	return s
}

// TestATT15_ANewGroupWaitsForApproval: the first Revision needs approval too.
func TestATT15_ANewGroupWaitsForApproval(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(approving("one"))
		w.until("the hold", time.Minute, func() bool {
			return strings.Contains(w.status().Message, "REVISION_NOT_APPROVED") && strings.Contains(w.status().Message, "cadre admission approve "+revisionOf("one")[:8])
		})
		tick(t.Context(), 35*time.Minute) // no deadline expires during an approval
		if got, st := w.made(""), w.status(); len(got) != 0 || st.RolloutState != "RUNNING" || st.TargetNumber != 1 {
			t.Fatalf("calls %v, state %s, #%d", got, st.RolloutState, st.TargetNumber)
		}
		// A malformed approval approves nothing, and is reported.
		w.put(store.ApprovalKey(revisionOf("one")), []byte("yes"))
		w.until("the condition", time.Minute, w.condition("AdmissionPolicy", "RECORD_UNREADABLE"))
		w.record(store.ApprovalKey(revisionOf("one")), policy.Approval{Revision: revisionOf("two")})
		tick(t.Context(), time.Minute)
		if got := w.made(""); len(got) != 0 {
			t.Fatalf("calls by an approval that names another revision: %v", got)
		}
		w.record(store.ApprovalKey(revisionOf("one")), policy.Approval{Revision: revisionOf("one"), ComposeHash: measuredAs("one"), Group: "pg", By: "ann"})
		w.until("creation", 2*time.Minute, w.complete("one"))

		w.apply(approving("two"))
		w.until("the next hold", time.Minute, func() bool { return strings.Contains(w.status().Message, "not_approved") })
		tick(t.Context(), time.Minute)
		if got := w.made("update"); len(got) != 0 {
			t.Fatalf("updates: %v", got)
		}
		// An approval of other bytes, or of none, does not approve these.
		w.record(store.ApprovalKey(revisionOf("two")), policy.Approval{Revision: revisionOf("two"), By: "ann"})
		w.until("the condition", time.Minute, w.condition("AdmissionPolicy", "APPROVAL_UNBOUND"))
		w.record(store.ApprovalKey(revisionOf("two")), policy.Approval{Revision: revisionOf("two"), ComposeHash: measuredAs("one"), By: "ann"})
		tick(t.Context(), time.Minute)
		if got := w.made("update"); len(got) != 0 {
			t.Fatalf("updates by an approval of another hash: %v", got)
		}
		w.record(store.ApprovalKey(revisionOf("two")), policy.Approval{Revision: revisionOf("two"), ComposeHash: measuredAs("two"), By: "ann"})
		w.until("the update", 5*time.Minute, w.complete("two"))
	})
}

// TestATT15_TheClustersSwitchAsksEveryGroup: a caller that may only write specs cannot turn the
// switch off. Running CVMs continue.
func TestATT15_TheClustersSwitchAsksEveryGroup(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.put(store.RequireApprovalKey(), []byte("on"))
		w.until("the switch", time.Minute, func() bool { return w.gate().RequireApproval })
		w.apply(spec("two"))
		w.until("the hold", time.Minute, func() bool { return strings.Contains(w.status().Message, "not_approved") })
		if evicted, _ := w.took(); len(evicted) != 0 || w.status().Available != 3 {
			t.Errorf("evicted %v, %d available", evicted, w.status().Available)
		}
		w.remove(store.RequireApprovalKey())
		w.until("the update", 5*time.Minute, w.complete("two"))
	})
}

// TestATT25_OPS06_NothingGoesBelowTheFloor: not by a rollback, by a lower key, by deleting the key,
// or under another name.
func TestATT25_OPS06_NothingGoesBelowTheFloor(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("update", 5*time.Minute, w.complete("two"))
		w.record(store.FloorKey("pg"), policy.Floor{Number: 2, Reason: "CVE-2026-1", By: "ann"})
		w.until("the floor", time.Minute, func() bool { return w.gate().Floor.Number == 2 })
		w.until("every slot's policy", time.Minute, func() bool {
			for _, p := range w.view().Policies {
				if p.Value.Floor != 2 {
					return false
				}
			}
			return true
		})
		if evicted, _ := w.took(); len(evicted) != 0 {
			t.Errorf("evicted %v, though all run the floor", evicted)
		}
		calls := len(w.made(""))
		renamed := spec("one")
		renamed.RestartToken = "again"
		// The old revision comes last: it is the target when the leader's record is lost below.
		for i, back := range []group.Spec{renamed, spec("one")} {
			w.apply(back)
			w.until(fmt.Sprintf("hold %d", i), time.Minute, func() bool {
				return strings.Contains(w.status().Message, "below_floor: REVISION_BELOW_FLOOR") && w.status().Target == back.Revision()
			})
			w.record(store.FloorKey("pg"), policy.Floor{Number: 1, By: "bob"})
			w.until("the condition", time.Minute, w.condition("AdmissionPolicy", "FLOOR_NOT_LOWERED"))
			w.remove(store.FloorKey("pg"))
			tick(t.Context(), 2*time.Minute)
			if got := w.made(""); len(got) != calls || w.gate().Floor.Number != 2 {
				t.Fatalf("way back %d: calls %v, floor #%d", i, got[calls:], w.gate().Floor.Number)
			}
		}
		// After an edit of the leader's own record, the leader restores it from the Slots' records.
		w.remove(store.GroupPolicyKey("pg"))
		w.until("the order and the floor again", time.Minute, func() bool {
			g := w.gate()
			return g.Floor.Number == 2 && g.Number(revisionOf("one")) == 1 && g.Number(revisionOf("two")) == 2
		})
		w.apply(spec("three"))
		w.until("the way forward", 5*time.Minute, w.complete("three"))
	})
}

// TestATT25_AFloorRefusesRevisionsBelowIt, at once and with its tokens.
func TestATT25_AFloorRefusesRevisionsBelowIt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		two := spec("two")
		two.UpdatePolicy.Partition = 2 // pg-0 and pg-1 keep the old Revision
		w.apply(two)
		w.until("the partition", 5*time.Minute, func() bool { return w.status().RolloutState == "PARTITION_REACHED" })
		w.record(store.FloorKey("pg"), policy.Floor{Number: 2, By: "ann"})
		w.until("the evictions", 15*time.Second, func() bool { evicted, _ := w.took(); return len(evicted) >= 2 })
		evicted, retired := w.took()
		slices.Sort(evicted)
		if !slices.Equal(evicted, []string{"pg-0 REVISION_BELOW_FLOOR", "pg-1 REVISION_BELOW_FLOOR"}) {
			t.Errorf("evicted %v", evicted)
		}
		if !slices.Contains(retired, "pg-0") || !slices.Contains(retired, "pg-1") || slices.Contains(retired, "pg-2") {
			t.Errorf("retired %v", retired)
		}
		// The outdated members are updated, since nothing else admits them again.
		w.apply(spec("two"))
		w.until("the rest", 10*time.Minute, w.complete("two"))
	})
}

// TestRevocationCutsAnInstanceOffAndTheAgentsLearnOfIt within R. Removing the revocation admits the
// instance again.
func TestRevocationCutsAnInstanceOffAndTheAgentsLearnOfIt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		before := w.view()
		had, err := control.Desired(before, spec("one"), "pg-1", "")
		if err != nil {
			t.Fatal(err)
		}
		id := before.Slots["pg-1"].Value.InstanceID
		key := store.RevocationKey("instance-" + id)
		w.put(key, []byte("stolen")) // a plain KV edit counts by its key
		w.until("the eviction", 15*time.Second, func() bool {
			evicted, retired := w.took()
			return slices.Equal(evicted, []string{"pg-1 PEER_REVOKED"}) && slices.Contains(retired, "token of "+before.Admissions["pg-1"].Value.BootID)
		})
		w.until("the slot's policy", time.Minute, func() bool { return len(w.view().Policies["pg-1"].Value.Revoked) == 1 })
		has, err := control.Desired(w.view(), spec("one"), "pg-1", "")
		if err != nil || has.GetPolicyEpoch() <= had.GetPolicyEpoch() || has.GetVersion() <= had.GetVersion() {
			t.Errorf("desired epoch %d, version %d; before %d, %d (%v)", has.GetPolicyEpoch(), has.GetVersion(), had.GetPolicyEpoch(), had.GetVersion(), err)
		}
		if others, _ := control.Desired(w.view(), spec("one"), "pg-0", ""); others.GetPolicyEpoch() != before.Policies["pg-0"].Value.Epoch {
			t.Errorf("the epoch of another slot moved to %d", others.GetPolicyEpoch())
		}
		tick(t.Context(), time.Minute)
		if _, in := w.view().Admissions["pg-1"]; in {
			t.Error("the revoked instance is in again")
		}
		w.remove(key)
		w.until("the instance is in again", time.Minute, func() bool { _, in := w.view().Admissions["pg-1"]; return in })
	})
}

// TestRevocationBitesWithoutALeader: every coordinator removes the instance from its peer map
// without a leader.
func TestRevocationBitesWithoutALeader(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		leader := w.coordinator("coordinator-0")
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		leader.stop()
		var directory control.Directory
		directory.Update(w.view(), nil, nil)
		id := w.view().Slots["pg-1"].Value.InstanceID
		w.put(store.RevocationKey("instance-"+id), []byte("{}"))
		if len(directory.Update(w.view(), nil, nil)) == 0 {
			t.Fatal("the peer map did not change")
		}
		for _, p := range directory.InitialPeers("pg", "pg-0") {
			if p.GetSlot() == "pg-1" && p.GetBootId() != "" {
				t.Errorf("pg-0 still knows %v", p)
			}
		}
		revoked, err := view.Revocations(t.Context(), w.store)
		if err != nil || len(revoked) != 1 || revoked[0].ID != id {
			t.Errorf("revocations %+v, %v", revoked, err)
		}
	})
}

// TestATT32_ARolloutAloneForcesNoNewAttestation: allowing the next Revision takes no permission
// from running Boots.
func TestATT32_ARolloutAloneForcesNoNewAttestation(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.apply(spec("two"))
		w.until("update", 5*time.Minute, w.complete("two"))
		v := w.view()
		for slot, a := range v.Admissions {
			if got := v.Policies[slot].Value.Epoch; got != a.Value.Epoch {
				t.Errorf("%s was admitted at epoch %d and is asked for %d", slot, a.Value.Epoch, got)
			}
		}
		index := v.Index
		tick(t.Context(), 5*time.Second)
		for key, p := range w.view().Policies {
			if p.Index > index {
				t.Errorf("the policy of %s is written again and again", key)
			}
		}
	})
}

// TestCTL20_UnexplainedNodesAreReportedAndTheirTokensRevoked.
func TestCTL20_UnexplainedNodesAreReportedAndTheirTokensRevoked(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		own := w.view().Admissions["pg-0"].Value.TokenAccessors[0]
		w.mu.Lock()
		w.nodes = map[string]tokens.Node{
			"coordinator-0": {Listed: true, Alive: true}, "pg-0": {Listed: true}, "pg-1": {Listed: true},
			"pg-9": {Listed: true, Alive: true}, "rogue": {Listed: true}, leaseNode: {Listed: true},
		}
		w.owned = []tokens.Owned{
			{Accessor: own, Slot: "pg-0"}, {Accessor: "hand-made", Slot: "pg-0"}, {Accessor: "of nobody", Slot: "gone-3"},
			{Accessor: "being issued", Slot: "pg-2", CreatedAt: time.Now().Add(time.Minute)},
		}
		w.mu.Unlock()
		condition := func() (found string) {
			for _, c := range w.status().Conditions {
				if c.Type == "UnexplainedMembers" && c.Status && c.Reason == "PEER_NOT_ADMITTED" {
					found = c.Message
				}
			}
			return found
		}
		w.until("the condition", 2*time.Minute, func() bool { return condition() != "" })
		text := condition()
		for _, want := range []string{`"pg-9"`, `"rogue"`, "hand-made"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not told: %s", want, text)
			}
		}
		for _, not := range []string{leaseNode, "coordinator-0", `"pg-0"`, `"pg-1"`, "being issued", own} {
			if strings.Contains(text, not) {
				t.Errorf("%s is told: %s", not, text)
			}
		}
		_, retired := w.took()
		if !slices.Contains(retired, "hand-made") || !slices.Contains(retired, "of nobody") || slices.Contains(retired, own) || slices.Contains(retired, "being issued") {
			t.Errorf("revoked %v", retired)
		}
		// While a record is unreadable, no token counts as unrecorded.
		w.put(store.AdmissionKey("pg-0"), []byte("oops"))
		w.mu.Lock()
		w.owned = []tokens.Owned{{Accessor: own, Slot: "pg-0"}}
		w.nodes = nil
		w.mu.Unlock()
		tick(t.Context(), 3*time.Minute)
		if _, retired := w.took(); slices.Contains(retired, own) {
			t.Error("the token of an admission that cannot be read was revoked")
		}
		w.remove(store.AdmissionKey("pg-0"))
		w.mu.Lock()
		w.owned = nil
		w.mu.Unlock()
		w.until("the end of it", 2*time.Minute, func() bool { return condition() == "" })
	})
}

// TestThreat_IDN09_UnexpectedGossipMembersAreReported: only coordinators have the gossip key. The leader evicts no
// member for a name in gossip. The holder of the key chooses the name, and members are in the
// catalog without an agent.
func TestThreat_IDN09_UnexpectedGossipMembersAreReported(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.apply(spec("one"))
		w.until("creation", 2*time.Minute, w.complete("one"))
		set := func(nodes map[string]tokens.Node) {
			w.mu.Lock()
			w.nodes = nodes
			w.mu.Unlock()
		}
		honest := map[string]tokens.Node{
			"coordinator-0": {IDs: []string{"1"}, Address: "127.50.0.1", Listed: true, Alive: true},
			"pg-0":          {Listed: true}, "pg-1": {Listed: true}, leaseNode: {Listed: true},
		}
		set(honest)
		tick(t.Context(), 2*time.Minute)
		if text := unexplainedMembersOf(w); text != "" {
			t.Fatalf("members in the catalog are unexplained: %s", text)
		}
		bad := maps.Clone(honest)
		bad["pg-1"] = tokens.Node{IDs: []string{"2"}, Address: "127.50.1.1", Listed: true, Alive: true} // an admitted Slot's name
		bad["pg-9"] = tokens.Node{IDs: []string{"3"}, Address: "127.50.1.9"}
		bad["old-0"] = tokens.Node{IDs: []string{"4"}, Listed: true}
		bad[leaseNode] = tokens.Node{IDs: []string{"5"}, Listed: true, Alive: true}
		set(bad)
		w.until("the alarm", time.Minute, func() bool { return unexplainedMembersOf(w) != "" })
		text := unexplainedMembersOf(w)
		for _, want := range []string{`"pg-1" at 127.50.1.1`, `"pg-9"`, `"old-0"`, leaseNode} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not told: %s", want, text)
			}
		}
		if strings.Contains(text, `"pg-0"`) || strings.Contains(text, "coordinator-0") {
			t.Errorf("honest ones are told: %s", text)
		}
		tick(t.Context(), 3*time.Minute)
		if a := w.view().Admissions; len(a) != 3 {
			t.Errorf("%d admissions are left", len(a))
		}
		set(honest)
		w.until("the end of it", time.Minute, func() bool { return unexplainedMembersOf(w) == "" })
	})
}

// unexplainedMembersOf is the message of the condition UnexplainedMembers.
func unexplainedMembersOf(w *world) (found string) {
	for _, c := range w.status().Conditions {
		if c.Type == "UnexplainedMembers" && c.Status {
			found = c.Message
		}
	}
	return found
}
