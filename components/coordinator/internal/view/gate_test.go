package view_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestLooseningRecordsAreReadStrictlyTighteningOnesByTheirKey(t *testing.T) {
	rev := strings.Repeat("0d", 16)
	v := read(t, map[string]string{
		store.ApprovalKey(rev):                 `{"revision":"` + rev + `","by":"ann","at":"2026-01-01T00:00:00Z"}`,
		store.ApprovalKey("0e"):                `yes`,
		store.ApprovalKey("0f"):                `{"revision":"0d","by":"ann","at":"2026-01-01T00:00:00Z"}`,
		store.RevocationKey("instance-0a"):     ``,
		store.RevocationKey("revision-0b"):     `{"kind":"revision","id":"0b","reason":"cve","by":"ann","at":"2026-01-01T02:00:00+02:00"}`,
		store.RevocationKey("key_provider-0c"): `{"kind":"instance","id":"zz","reason":"","by":"","at":"2026-01-01T00:00:00Z"}`,
		store.RevocationsPrefix + "nothing":    `{}`,
		store.FloorKey("pg"):                   `{"number":3,"by":"ann","at":"2026-01-01T00:00:00Z"}`,
		store.FloorKey(store.Everywhere):       `{"number":"3"}`,
		store.FloorKey("web"):                  `3`,
		store.RequireApprovalKey():             `whatever`,
		store.GroupSpecKey("pg"):               specText(t),
	})
	if len(v.Gate.Approvals) != 1 || v.Gate.Approvals[0].Revision != rev {
		t.Errorf("approvals %+v", v.Gate.Approvals)
	}
	var revoked []string
	for _, r := range v.Gate.Revocations {
		revoked = append(revoked, r.Name()+" "+r.Reason)
	}
	if got := strings.Join(revoked, ","); got != "instance-0a ,key_provider-0c ,revision-0b cve" {
		t.Errorf("revocations %q", got)
	}
	if len(v.Gate.Floors) != 1 || v.Gate.Floors["pg"].Value.Number != 3 || !v.Gate.Required {
		t.Errorf("floors %+v, required %v", v.Gate.Floors, v.Gate.Required)
	}
	if len(v.Bad) != 0 {
		t.Errorf("they stop groups: %v", v.Bad)
	}
	spec := v.Specs["pg"].Value
	gp, problems := v.FoldGroup(spec, time.Now())
	reported := ""
	for _, p := range problems {
		reported += p.Message + "\n"
	}
	for key, want := range map[string]bool{
		store.ApprovalKey("0e"): true, store.ApprovalKey("0f"): true, store.RevocationsPrefix + "nothing": true,
		store.FloorKey(store.Everywhere): true, store.FloorKey("web"): false, store.RevocationKey("instance-0a"): true,
	} {
		if strings.Contains(reported, key) != want {
			t.Errorf("%s is reported: %v, want %v\n%s", key, !want, want, reported)
		}
	}
	if !gp.RequireApproval || gp.Number(spec.Revision()) != 1 {
		t.Errorf("folded %+v", gp)
	}
}

func TestFoldedPolicyHasTheSlotsRecords(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	v := read(t, map[string]string{
		store.RevocationKey("instance-0a"): ``, store.RevocationKey("instance-0b"): ``, store.RevocationKey("key_provider-0c"): ``,
		store.GroupPolicyKey("pg"): `{"group":"pg","require_approval":true,"last":2,"floor":{"number":2},"epoch":1,"term":1,
			"revisions":{"r":{"number":2,"content":"c","at":"2026-01-01T00:00:00Z"}},"approvals":{"r":{"revision":"r","compose_hash":"` + hash + `","by":"ann","at":"2026-01-01T00:00:00Z"}}}`,
	})
	sp := v.Folded(policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: "0a", Epoch: 7, Allowed: []policy.AllowedRevision{{Revision: "r", ComposeHash: hash}, {Revision: "s", ComposeHash: hash}}})
	if !sp.RequireApproval || sp.Floor != 2 || sp.Epoch != 7 || len(sp.Revoked) != 2 {
		t.Errorf("folded %+v", sp)
	}
	if a, b := sp.Allowed[0], sp.Allowed[1]; a.Number != 2 || !a.Approved || b.Number != 0 || b.Approved {
		t.Errorf("allowed %+v", sp.Allowed)
	}
}

func TestRenewalsSeeRevocationsThatNoLeaderFolded(t *testing.T) {
	s := storetest.NewMemory()
	w := view.NewWatcher(s, slog.New(slog.DiscardHandler))
	a := policy.Admission{Group: "pg", Slot: "pg-0", BootID: "b", InstanceID: "0a", Claims: policy.Claims{InstanceID: "0a"}}
	sp := policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: "0a"}
	if d := w.MayRenew(a, sp, policy.ImagePolicy{}, time.Now()); d.Allowed || d.Code != policy.CodeGateUnreadable {
		t.Errorf("renewed before anything was read: %+v", d)
	}
	if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.RevocationKey("instance-0a")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	for v, changed := w.Latest(); v == nil; v, changed = w.Latest() {
		<-changed
	}
	if v, _ := w.Latest(); v.Unfit(a, sp).Code != policy.CodePeerRevoked {
		t.Errorf("stays: %+v", v.Unfit(a, sp))
	}
	if d := w.MayRenew(a, sp, policy.ImagePolicy{}, time.Now()); d.Allowed {
		t.Errorf("renewed: %+v", d)
	}
	cancel()
	<-done
}

func TestAnUnreadableGroupPolicyStopsItsGroup(t *testing.T) {
	v := read(t, map[string]string{store.GroupPolicyKey("pg"): `{"floor":"none"}`})
	if v.Unusable("pg") == nil || v.Unusable("web") != nil {
		t.Errorf("pg: %v, web: %v", v.Unusable("pg"), v.Unusable("web"))
	}
}
