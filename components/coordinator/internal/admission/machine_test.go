package admission

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

// on puts the instance of a Slot on a machine; "": its evidence names none.
func (s *small) on(slot int, machine string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runsOn == nil {
		s.runsOn = map[string]string{}
	}
	s.runsOn[instanceOf(slot)] = machine
}

func (s *small) place(p group.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed = p
}

func (s *small) machineOf(slot string) policy.MachineRecord {
	s.t.Helper()
	m, _, err := store.Read[policy.MachineRecord](context.Background(), s.store, store.MachineKey(slot))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.t.Fatal(err)
	}
	return m
}

var apart = group.Placement{Spread: group.SpreadMachine, Verified: true}

// A host that lies about its node starts two members on one machine: the second shows the machine of
// the first, and the listing of the platform counts for nothing.
func TestIDN14_AHostThatLiesAboutItsNodeGetsOneMember(t *testing.T) {
	s := newSmall(t, 2, 3, "demo")
	s.place(apart)
	s.on(0, "one")
	s.on(1, "one")
	s.on(2, "two")
	first := s.newcomer(0, 0)
	if err := first.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.newcomer(1, 1).admit(t.Context())
	if code(err) != policy.CodeMachineShared || !strings.Contains(err.Error(), "pg-0") || !strings.Contains(err.Error(), "max_per") {
		t.Errorf("the second member on the machine: %v", err)
	}
	if last := s.decisions(1).Last(); last.Code != policy.CodeMachineShared {
		t.Errorf("decision %+v", last)
	}
	if s.admission(1).BootID != "" || s.machineOf("pg-1").Machine != "" {
		t.Error("the refused member has records")
	}
	if err := s.newcomer(1, 2).admit(t.Context()); err != nil {
		t.Errorf("a member on another machine: %v", err)
	}
	// A dead member keeps its machine, because its CVM starts there again: a host cannot end the one
	// to bring the other in, and then start the first again.
	s.silence()
	s.endLease(0)
	if err := s.newcomer(1, 1).admit(t.Context()); code(err) != policy.CodeMachineShared {
		t.Errorf("while the first is down: %v", err)
	}
	if err := s.newcomer(1, 0).admit(t.Context()); err != nil {
		t.Errorf("the first starts again: %v", err)
	}
	// A replaced instance gives the machine free, once its boot is gone.
	s.setPolicy(0, strings.Repeat("f", 40), revision)
	if err := s.newcomer(0, 1).admit(t.Context()); code(err) != policy.CodeMachineUnknown {
		t.Errorf("while the boot of the replaced instance is alive: %v", err)
	}
	s.endLease(0)
	if err := s.newcomer(0, 1).admit(t.Context()); err != nil {
		t.Errorf("after the first instance was replaced: %v", err)
	}
}

func TestIDN14_MaxPerBoundsTheMembersOnAMachine(t *testing.T) {
	s := newSmall(t, 1, 3, "demo")
	s.place(group.Placement{Spread: group.SpreadMachine, Verified: true, MaxPer: 2})
	for slot, want := range []policy.Code{"", "", policy.CodeMachineShared} {
		s.on(slot, "one")
		if err := s.newcomer(0, slot).admit(t.Context()); code(err) != want {
			t.Errorf("member %d: %v, want %q", slot, err, want)
		}
	}
}

// Each of two coordinators judges before the other one commits.
func TestIDN14_TwoAdmissionsAtOnceDoNotTakeOneMachine(t *testing.T) {
	s := newSmall(t, 2, 2, "demo")
	s.place(apart)
	s.on(0, "one")
	s.on(1, "one")
	s.between(store.OpPutCAS, store.AdmissionKey("pg-1"), func() {
		if err := s.newcomer(0, 0).admit(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := s.newcomer(1, 1).admit(t.Context()); code(err) != policy.CodeMachineShared {
		t.Errorf("the second: %v", err)
	}
	if s.admission(0).BootID == "" || s.admission(1).BootID != "" {
		t.Errorf("admitted: %+v and %+v", s.admission(0), s.admission(1))
	}
}

func TestIDN14_ManyAdmissionsAtOnceTakeAMachineOnce(t *testing.T) {
	const members = 8
	s := newSmall(t, 3, members, "demo")
	s.place(apart)
	var boots []*newcomer
	for slot := range members {
		s.on(slot, []string{"one", "two"}[slot%2])
		boots = append(boots, s.newcomer(slot%3, slot))
	}
	var all sync.WaitGroup
	for _, b := range boots {
		all.Go(func() {
			for {
				err := b.again(b.Service).admit(context.Background())
				if c := code(err); c == "" || c == policy.CodeMachineShared {
					return
				} else if c != codeUnreadable {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	admitted := [2]int{}
	for slot := range members {
		if s.admission(slot).BootID != "" {
			admitted[slot%2]++
		}
	}
	if admitted != [2]int{1, 1} {
		t.Errorf("members on the two machines: %v", admitted)
	}
}

// A rule that comes later throws no member out, neither at new evidence nor at a restart.
func TestAMemberOnASharedMachineStays(t *testing.T) {
	s := newSmall(t, 1, 3, "demo")
	var boots []*newcomer
	for slot := range 2 {
		s.on(slot, "one")
		b := s.newcomer(0, slot)
		if err := b.admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		boots = append(boots, b)
	}
	s.place(group.Placement{Spread: group.SpreadMachine, Verified: true, Machines: []string{strings.Repeat("0", 16)}})
	if err := boots[1].again(s.services[0]).admit(t.Context()); err != nil {
		t.Errorf("new evidence of the same boot: %v", err)
	}
	s.silence()
	s.endLease(1)
	if err := s.newcomer(0, 1).admit(t.Context()); err != nil {
		t.Errorf("a restart: %v", err)
	}
	s.on(2, "two")
	if err := s.newcomer(0, 2).admit(t.Context()); code(err) != policy.CodeMachineNotListed {
		t.Errorf("a new member: %v", err)
	}
}

func TestOnlyListedMachinesAreAdmitted(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	s.on(0, "one")
	s.on(1, "two")
	hash := s.services[0].cfg.Root.Machine("one")
	for _, listed := range []string{hash, hash[:16]} {
		s.place(group.Placement{Machines: []string{listed}})
		b := s.newcomer(0, 0)
		if err := b.admit(t.Context()); err != nil {
			t.Errorf("listed as %s: %v", listed, err)
		}
		s.silence()
		s.endLease(0)
	}
	err := s.newcomer(0, 1).admit(t.Context())
	if code(err) != policy.CodeMachineNotListed || !strings.Contains(err.Error(), s.services[0].cfg.Root.Machine("two")) {
		t.Errorf("another machine: %v", err)
	}
	s.place(group.Placement{Machines: []string{hash[:8]}})
	if err := s.newcomer(0, 1).admit(t.Context()); code(err) != policy.CodeMachineNotListed {
		t.Errorf("a short entry: %v", err)
	}
}

// Evidence without a machine is admitted where no rule asks for one, and refused where one does.
func TestIDN14_EvidenceWithoutAMachineFailsClosed(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := s.machineOf("pg-0"); m.Machine != "" {
		t.Errorf("recorded %+v", m)
	}
	for _, p := range []group.Placement{apart, {Machines: []string{strings.Repeat("0", 16)}}} {
		s.place(p)
		if err := s.newcomer(0, 1).admit(t.Context()); code(err) != policy.CodeMachineUnknown {
			t.Errorf("under %+v: %v", p, err)
		}
		if err := b.again(s.services[0]).admit(t.Context()); err != nil {
			t.Errorf("the running boot under %+v: %v", p, err)
		}
	}
	s.silence()
	s.endLease(0)
	if err := s.newcomer(0, 0).admit(t.Context()); code(err) != policy.CodeMachineUnknown {
		t.Errorf("a restart of the member without a machine: %v", err)
	}
}

// A running member whose evidence names no machine attests once under the new rule, and renews after that.
func TestAMemberWithoutAMachineRenews(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.place(apart)
	s.await(func(v *view.View) bool {
		return v.Admissions["pg-0"].Value.BootID == b.bootID && v.Boots["pg-0"].Leased()
	})
	caller := overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}, BootID: b.bootID, PublicKey: string(b.bootKey)}
	ask := func() *refusal {
		_, refused := s.services[0].mayIssue(t.Context(), caller, s.services[0].viewed)
		return refused
	}
	if refused := ask(); refused == nil || refused.code != policy.CodeReattestRequired {
		t.Errorf("the first renewal: %v", refused)
	}
	if err := b.again(s.services[0]).admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := s.machineOf("pg-0"); m.Machine != "" || m.InstanceID == "" {
		t.Errorf("recorded %+v", m)
	}
	s.await(func(v *view.View) bool { return v.Machines["pg-0"].Value.Judged(v.Admissions["pg-0"].Value.InstanceID) })
	if refused := ask(); refused != nil {
		t.Errorf("the next renewal: %v", refused)
	}
	s.on(1, "two")
	if err := s.newcomer(0, 1).admit(t.Context()); code(err) != policy.CodeMachineUnknown {
		t.Errorf("a new member next to it: %v", err)
	}
}

// A live member from before machines were recorded could be on any machine: a new member waits until
// that one attests again, which its next renewal asks for.
func TestIDN14_ALiveMemberOfAnUnknownMachineComesFirst(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	s.on(1, "two")
	old := s.newcomer(0, 0)
	if err := old.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.place(apart)
	if err := s.newcomer(0, 1).admit(t.Context()); code(err) != policy.CodeMachineUnknown || !strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("next to an unknown machine: %v", err)
	}
	s.await(func(v *view.View) bool {
		return v.Admissions["pg-0"].Value.BootID == old.bootID && v.Boots["pg-0"].Leased()
	})
	caller := overlay.Addr{ID: overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}, BootID: old.bootID, PublicKey: string(old.bootKey)}
	if _, refused := s.services[0].renew(t.Context(), caller, &admissionv1.RenewRequest{BootId: old.bootID}); refused == nil || refused.code != policy.CodeReattestRequired {
		t.Errorf("the renewal: %v", refused)
	}
	s.on(0, "one")
	if err := old.again(s.services[0]).admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.newcomer(0, 1).admit(t.Context()); err != nil {
		t.Errorf("after the other one attested: %v", err)
	}
}

// Evidence is of one Boot, so that the evidence of a member elsewhere does not move a machine.
func TestIDN14_CopiedEvidenceShowsNoMachine(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	s.place(apart)
	s.on(0, "one")
	s.on(1, "two")
	honest, thief := s.newcomer(0, 1), s.newcomer(0, 0)
	challenge, err := thief.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copied := thief.request(challenge, nil)
	other, err := honest.challenge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	copied.Evidence = honest.request(other, nil).GetEvidence()
	if _, err := thief.Admit(t.Context(), copied); code(err) != codeRejected {
		t.Errorf("with the evidence of another member: %v", err)
	}
	if m := s.machineOf("pg-0"); m.Machine != "" {
		t.Errorf("recorded %+v", m)
	}
}

func TestAnotherMachineOfTheSameInstanceIsRecorded(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	show := func(machine string) policy.MachineRecord {
		t.Helper()
		s.on(0, machine)
		s.silence()
		s.endLease(0)
		if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.machineOf("pg-0")
	}
	first := show("one")
	if again := show("one"); again != first || first.Before != "" {
		t.Errorf("the same machine: %+v, then %+v", first, again)
	}
	moved := show("two")
	if moved.Before != first.Machine || moved.Machine == first.Machine || !moved.Since.After(first.Since) {
		t.Errorf("another machine: %+v after %+v", moved, first)
	}
	var entries []policy.DecisionEntry
	for _, e := range s.decisions(0).All() {
		if e.What == policy.DecidedMachine {
			entries = append(entries, e)
		}
	}
	if len(entries) != 1 || entries[0].Code != policy.CodeMachineChanged || !strings.Contains(entries[0].Message, moved.Machine[:16]) {
		t.Errorf("decisions %+v", entries)
	}
	if err := s.decisions(0).Verify(); err != nil {
		t.Error(err)
	}
	// Another instance of the Slot is another CVM: nothing changed.
	s.setPolicy(0, strings.Repeat("f", 40), revision)
	text, err := json.Marshal(moved)
	if err != nil || strings.Contains(string(text), "two") {
		t.Errorf("record %s, %v", text, err)
	}
}

// A damaged record keeps no Boot out for good: the next admission replaces it.
func TestADamagedMachineRecordIsReplaced(t *testing.T) {
	s := newSmall(t, 1, 2, "demo")
	s.place(apart)
	s.on(0, "one")
	s.on(1, "two")
	for _, key := range []string{store.MachineKey("pg-0"), store.MachineTurnKey("pg")} {
		if err := s.store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(`{"slot":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range 2 {
		if err := s.newcomer(0, slot).admit(t.Context()); err != nil {
			t.Errorf("pg-%d: %v", slot, err)
		}
	}
	if s.machineOf("pg-0").Machine == "" {
		t.Error("the damaged record is still there")
	}
}

// The simulated hardware, with real quotes: a re-registered machine shows another name.
func TestMachinesOfSimulatedHardware(t *testing.T) {
	h := newHarness(t)
	read := func() policy.MachineRecord {
		t.Helper()
		m, _, err := store.Read[policy.MachineRecord](t.Context(), h.store, store.MachineKey("pg-0"))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	restart := func(machine int) policy.MachineRecord {
		t.Helper()
		h.host = attestsim.MachineName(machine)
		h.endLease()
		h.boot(composeText, h.seed).mustAdmit()
		return read()
	}
	h.boot(composeText, h.seed).mustAdmit()
	zero := read()
	if again := restart(0); again != zero || len(zero.Machine) != policy.MachineDigits {
		t.Errorf("a restart: %+v after %+v", again, zero)
	}
	one := restart(1)
	if one.Before != zero.Machine || one.Machine == zero.Machine {
		t.Errorf("on machine 1: %+v", one)
	}
	h.cloud.Reregister(attestsim.MachineName(1))
	if after := restart(1); after.Before != one.Machine {
		t.Errorf("after another registration: %+v", after)
	}
}

// The hash needs the cluster's key: two clusters, and two cluster IDs, do not compare.
func TestMachineHashesAreOfOneCluster(t *testing.T) {
	hash := func(cluster, id string) string {
		r, err := keys.Derive(t.Context(), fakeGuest{cluster}, cluster, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.Machine("platform-instance:01")
	}
	const id = "0123456789abcdef0123456789abcdef"
	own := hash("demo", id)
	if len(own) != policy.MachineDigits || own != hash("demo", id) || own == hash("other", id) || own == hash("demo", strings.Repeat("0f", 16)) {
		t.Errorf("hash %q", own)
	}
}
