package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// changed is the spec with a change, as JSON.
func changed(t *testing.T, change func(*group.Spec)) []byte {
	t.Helper()
	s := spec(t)
	change(&s)
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// named creates a token of an operator with its own name.
func (a *api) named(t *testing.T, name, rules string) (secret, who string) {
	t.Helper()
	policy, _, err := a.consul.ACL().PolicyCreate(&consul.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := a.consul.ACL().TokenCreate(&consul.ACLToken{Description: name, Policies: []*consul.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID, name + " (" + token.AccessorID + ")"
}

// An operator who asks for the origin of a group's spec finds the token's name and the request in
// the record, in the answers and in the coordinator's log. The index on the line is the accepted
// spec's spec_index.
func TestCTL13_ASpecNamesTheTokenAndTheRequestThatAppliedIt(t *testing.T) {
	a := newAPI(t)
	ann, who := a.named(t, "ann", store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, []string{"pg"}))
	ctx := as(t.Context(), ann)
	var log bytes.Buffer
	a.cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	request := &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t), RequestId: "ticket-7", DryRun: true}
	if out, err := a.ApplyGroup(ctx, request); err != nil || out.GetBy() != "" || strings.Contains(log.String(), "spec applied") {
		t.Errorf("a dry run: %v, %v, log %s", out, err, &log)
	}
	log.Reset()
	request.DryRun = false
	out, err := a.ApplyGroup(ctx, request)
	if err != nil || !out.GetChanged() || out.GetBy() != who || out.GetRequestId() != "ticket-7" {
		t.Fatalf("%v, %v; want by %q, request ticket-7", out, err, who)
	}
	var line struct {
		Msg, Group, By, Request string
		SpecIndex               uint64 `json:"spec_index"`
	}
	for text := range bytes.Lines(log.Bytes()) {
		if bytes.Contains(text, []byte(`"spec applied"`)) {
			if err := json.Unmarshal(text, &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line.Group != "pg" || line.By != who || line.Request != "ticket-7" || line.SpecIndex != out.GetIndex() || line.SpecIndex == 0 {
		t.Errorf("log %q; want group pg, spec_index %d, by %q, request ticket-7", log.String(), out.GetIndex(), who)
	}
	if strings.Contains(log.String(), ann) {
		t.Error("the log holds the token itself")
	}
	applied, index, err := store.Read[store.Applied](ctx, a.cfg.Store, store.AppliedKey("pg"))
	if err != nil || applied.By != who || applied.Request != "ticket-7" || applied.At.IsZero() || index != out.GetIndex() {
		t.Errorf("record %+v at %d, %v", applied, index, err)
	}
	shows := func(by, request string) {
		t.Helper()
		g, err := a.GetGroup(ctx, &apiv1.GetGroupRequest{Group: "pg"})
		if err != nil || g.GetAppliedBy() != by || g.GetAppliedRequestId() != request {
			t.Errorf("group by %q, request %q, %v; want %q, %q", g.GetAppliedBy(), g.GetAppliedRequestId(), err, by, request)
		}
	}
	shows(who, "ticket-7")
	// A repeated call changes nothing, and neither does another operator's call with the same spec.
	for _, token := range []string{ann, operatorToken} {
		if again, err := a.ApplyGroup(as(t.Context(), token), &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil ||
			again.GetChanged() || again.GetBy() != who || again.GetRequestId() != "ticket-7" || again.GetIndex() != out.GetIndex() {
			t.Errorf("again: %v, %v", again, err)
		}
	}
	// An operator's direct edit of the key belongs to no call.
	edit := changed(t, func(s *group.Spec) { s.Meta = map[string]string{"a": "b"} })
	own, err := a.cfg.StoreFor(ann)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Commit(ctx, store.Op{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: edit}); err != nil {
		t.Fatal(err)
	}
	shows(store.WrittenToKV, "")
	// Without an id the coordinator creates one.
	other := changed(t, func(s *group.Spec) { s.Meta = map[string]string{"a": "c"} })
	if out, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other}); err != nil || !strings.HasPrefix(out.GetRequestId(), "apply-") {
		t.Errorf("without an id: %v, %v", out, err)
	}
	shows(who, out.GetRequestId())
	_, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: edit, RequestId: strings.Repeat("x", 129)})
	if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(message(err), "request_id: ") {
		t.Errorf("a long id: %v", err)
	}
}

// An operator may write specs, but no record of a caller, with or without a spec. The coordinator
// writes only for a token that may write the spec in Consul.
func TestCTL13_NoOperatorWritesAnothersName(t *testing.T) {
	a := newAPI(t)
	ann, _ := a.named(t, "ann", store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, []string{"pg"}))
	own, err := a.cfg.StoreFor(ann)
	if err != nil {
		t.Fatal(err)
	}
	forged := []byte(`{"group":"pg","by":"bob","request":"r","at":"2026-01-01T00:00:00Z"}`)
	for name, ops := range map[string][]store.Op{
		"alone":         {{Kind: store.OpPut, Key: store.AppliedKey("pg"), Value: forged}},
		"with the spec": {{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: specJSON(t)}, {Kind: store.OpPut, Key: store.AppliedKey("pg"), Value: forged}},
	} {
		if err := own.Commit(t.Context(), ops...); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: %v, want %v", name, err, store.ErrDenied)
		}
	}
	reader, _ := a.named(t, "reader", `key_prefix "cadre/v1/" { policy = "read" }`)
	ctx := as(t.Context(), reader)
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a token that may only read: %v", err)
	}
	// A caller that may write only the spec cannot give up disks with it.
	writer, _ := a.named(t, "writer", `key_prefix "cadre/v1/" { policy = "read" }
key "cadre/v1/groups/pg/spec" { policy = "write" }`)
	ctx = as(t.Context(), writer)
	put(a, t, store.SlotKey("pg", "pg-3"), group.SlotRecord{Group: "pg", Slot: "pg-3", Ordinal: 3, VMUUID: "vm"})
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t), DeleteDisks: true, Reason: "r"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("disks without the right to control/delete-disks: %v", err)
	}
	for _, key := range []string{store.GroupSpecKey("pg"), store.AppliedKey("pg"), store.DeleteDisksKey("pg")} {
		if _, err := a.cfg.Store.Get(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil || !out.GetChanged() {
		t.Errorf("the spec alone: %v, %v", out, err)
	}
}

// The log names the operator who paused a rollout and the one who resumed it.
func TestTheLogNamesTheTokenThatPausedAndResumed(t *testing.T) {
	a := newAPI(t)
	ann, who := a.named(t, "ann", store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, []string{"pg"}))
	ctx := as(t.Context(), ann)
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		if _, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, Name: "pg", Reason: "maintenance"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := a.ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, Name: "pg"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`msg="override set" kind=OVERRIDE_KIND_PAUSE name=pg until=0001-01-01T00:00:00.000Z by="` + who + `" reason=maintenance`, `msg="override taken back" kind=OVERRIDE_KIND_PAUSE name=pg by="` + who + `"`} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d lines with %q, want 1, in %s", n, want, &log)
		}
	}
}

// A spec that is applied during the deletion of its group would be deleted with the group. It is
// rejected with the way out until the deletion is cancelled, in a dry run as well.
func TestAGroupThatIsBeingDeletedTakesNoSpec(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.GetGroup(ctx, &apiv1.GetGroupRequest{Group: "pg"}); status.Code(err) != codes.NotFound || !strings.HasSuffix(err.Error(), "no such group: pg") {
		t.Errorf("before there is one: %v", err)
	}
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	shows := func(want bool) {
		t.Helper()
		g, err := a.GetGroup(ctx, &apiv1.GetGroupRequest{Group: "pg"})
		if err != nil || g.Deleting == nil || g.GetDeleting() != want || g.GetRevision() != revisionOf(t, g.GetSpecJson()) {
			t.Errorf("group %v, %v; want deleting %v", g, err, want)
		}
	}
	shows(false)
	if _, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, Reason: "moved"}); err != nil {
		t.Fatal(err)
	}
	shows(true)
	other := changed(t, func(s *group.Spec) { s.Meta = map[string]string{"a": "b"} })
	for name, req := range map[string]*apiv1.ApplyGroupRequest{
		"another spec":  {Group: "pg", SpecJson: other},
		"the same one":  {Group: "pg", SpecJson: specJSON(t)},
		"a dry run":     {Group: "pg", SpecJson: other, DryRun: true},
		"as a new one":  {Group: "pg", SpecJson: other, ExpectAbsent: true},
		"with its disk": {Group: "pg", SpecJson: other, DeleteDisks: true, Reason: "r"},
	} {
		_, err := a.ApplyGroup(ctx, req)
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{"GROUP_DELETING: ", "cadre-operator", "(moved)", "cadre group delete pg --cancel"} {
			if !strings.Contains(message(err), want) {
				t.Errorf("%s: %q lacks %q", name, message(err), want)
			}
		}
	}
	if _, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", Cancel: true}); err != nil {
		t.Fatal(err)
	}
	shows(false)
	if out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other}); err != nil || !out.GetChanged() {
		t.Errorf("after it was taken back: %v, %v", out, err)
	}
}

// An unreadable deletion record blocks the write of a spec. The error names the record and the way
// out, and the way out works.
func TestASpecWaitsForADeletionThatCannotBeRead(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	key := store.DeleteGroupKey("pg")
	if _, err := a.consul.KV().Put(&consul.KVPair{Key: store.DefaultPrefix + key, Value: []byte(`{"group":`)}, nil); err != nil {
		t.Fatal(err)
	}
	other := changed(t, func(s *group.Spec) { s.Meta = map[string]string{"a": "b"} })
	for _, dry := range []bool{true, false} {
		_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other, DryRun: dry})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("dry run %v: %v", dry, err)
		}
		for _, want := range []string{"GROUP_DELETING: ", key, "cadre group delete pg --cancel"} {
			if !strings.Contains(message(err), want) {
				t.Errorf("dry run %v: %q lacks %q", dry, message(err), want)
			}
		}
	}
	if out, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", Cancel: true}); err != nil || !out.GetChanged() {
		t.Fatal(out, err)
	}
	if out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other}); err != nil || !out.GetChanged() {
		t.Errorf("after it was taken away: %v, %v", out, err)
	}
}

func revisionOf(t *testing.T, raw []byte) string {
	t.Helper()
	s, err := group.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	s.Normalize()
	return s.Revision()
}

// A deletion that begins between a caller's read of the records and its write takes no spec with
// it: one of the two is rejected.
func TestADeletionAndASpecDoNotMeet(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	c, err := a.caller(ctx)
	if err == nil {
		err = c.mayRead(ctx, "pg")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, index, err := store.ReadRaw(ctx, c.store, store.GroupSpecKey("pg"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, Reason: "moved"}); err != nil {
		t.Fatal(err)
	}
	err = c.writeSpec(ctx, store.Applied{Group: "pg", By: "ann", Request: "r", At: a.now()}, "", changed(t, func(s *group.Spec) { s.Replicas = 5 }), index)
	if _, now, _ := store.ReadRaw(ctx, c.store, store.GroupSpecKey("pg")); status.Code(err) != codes.Aborted || now != index {
		t.Errorf("%v, index %d, before %d", err, now, index)
	}
}

// Of two callers who create a group of one name with two specs, the second gets an error. The same
// spec is accepted, because a caller that lost the first answer repeats the call.
func TestANewGroupIsMadeOnce(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	other := changed(t, func(s *group.Spec) { s.Meta = map[string]string{"a": "b"} })
	first := &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t), ExpectAbsent: true}
	for i, want := range []bool{true, false} {
		if out, err := a.ApplyGroup(ctx, first); err != nil || out.GetChanged() != want || out.GetIndex() == 0 {
			t.Errorf("%d: %v, %v", i, out, err)
		}
	}
	for _, dry := range []bool{true, false} {
		_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other, ExpectAbsent: true, DryRun: dry})
		if status.Code(err) != codes.AlreadyExists || !strings.HasPrefix(message(err), "GROUP_EXISTS: ") {
			t.Errorf("another spec, dry run %v: %v", dry, err)
		}
	}
	if raw, _, err := store.ReadRaw(ctx, a.cfg.Store, store.GroupSpecKey("pg")); err != nil || revisionOf(t, raw) != revisionOf(t, specJSON(t)) || strings.Contains(string(raw), "meta") {
		t.Errorf("it was changed: %s, %v", raw, err)
	}
	both := &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: other, ExpectAbsent: true, ExpectedIndex: 1}
	if _, err := a.ApplyGroup(ctx, both); status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(message(err), "expect_absent, expected_index: ") {
		t.Errorf("both: %v", err)
	}
}

// awaitView waits until the coordinator has seen the write.
func awaitView(t *testing.T, a *api, seen func(*view.View) bool) {
	t.Helper()
	for v, changed := a.cfg.Views.Latest(); !seen(v); v, changed = a.cfg.Views.Latest() {
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("it is not seen")
		}
	}
}

// A Slot can be pinned only to a recorded Revision. The answer names the slots that the group leaves out.
func TestPinsAndSlotsThatAreLeftOut(t *testing.T) {
	a, first, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	pinned := func(revision string, ordinals ...int) *apiv1.ApplyGroupRequest {
		return &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: changed(t, func(s *group.Spec) {
			s.Template.Compose += "    environment:\n      RELEASE: two\n"
			s.Meta = map[string]string{"pins": fmt.Sprint(ordinals)}
			for _, n := range append(ordinals, 1) {
				s.Instances = append(s.Instances, group.InstanceSettings{Ordinal: n, PinnedRevision: revision})
			}
		})}
	}
	if _, err := a.ApplyGroup(ctx, pinned(strings.Repeat("ab", 16))); status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(message(err), `instance["1"].pinned_revision: `) {
		t.Errorf("an unknown revision: %v", err)
	}
	awaitView(t, a, func(v *view.View) bool { return v.Gate.Groups["pg"].Value.RequireApproval })
	if out, err := a.ApplyGroup(ctx, pinned(first)); err != nil || !strings.Contains(strings.Join(out.GetWarnings(), "\n"), "REVISION_NOT_APPROVED") {
		t.Errorf("a revision that is recorded and waits for an approval: %v, %v", out, err)
	}
	v, err := view.Read(ctx, a.cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	gate := v.Gate.Groups["pg"].Value
	gate.Floor.Number = 2
	put(a, t, store.GroupPolicyKey("pg"), gate)
	awaitView(t, a, func(v *view.View) bool { return v.Gate.Groups["pg"].Value.Floor.Number == 2 })
	if _, err := a.ApplyGroup(ctx, pinned(first, 0)); status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(message(err), `instance["0"].pinned_revision: REVISION_BELOW_FLOOR`) ||
		strings.Contains(message(err), `instance["1"]`) {
		t.Errorf("a revision below the floor: %v", err)
	}
	// The warning concerns only the Slot that was pinned before, and no other edit.
	edit := pinned(first)
	edit.SpecJson = bytes.Replace(edit.GetSpecJson(), []byte(`"pins":"[]"`), []byte(`"pins":"as they were"`), 1)
	out, err := a.ApplyGroup(ctx, edit)
	if warnings := strings.Join(out.GetWarnings(), "\n"); err != nil || !out.GetChanged() || !strings.Contains(warnings, `instance["1"].pinned_revision: the slot stays where it is: REVISION_BELOW_FLOOR`) {
		t.Errorf("an edit with an earlier pin: %v, %v", out, err)
	}
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1, VMUUID: "vm"})
	out, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", DryRun: true, SpecJson: changed(t, func(s *group.Spec) {
		s.Replicas, s.Without = 2, []string{"pg-1"}
	})})
	if err != nil || strings.Join(out.GetLeaving(), " ") != "pg-1" || strings.Join(out.GetHeldDisks(), " ") != "pg-1" {
		t.Errorf("leaving %v, held disks %v, %v", out.GetLeaving(), out.GetHeldDisks(), err)
	}
}

// TestADryRunWarnsOfSettingsThatPatroniReadsOnce: the dry run has the warning.
func TestADryRunWarnsOfSettingsThatPatroniReadsOnce(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	with := func(connections string) []byte {
		return changed(t, func(s *group.Spec) {
			s.Workload = group.Workload{Kind: group.WorkloadPatroni}
			s.Template.Compose += "configs:\n  patroni:\n    content: |\n      bootstrap:\n        dcs:\n          max_connections: " + connections + "\n"
		})
	}
	first, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: with("50")})
	if err != nil || strings.Contains(strings.Join(first.GetWarnings(), "\n"), "bootstrap_read_once") {
		t.Fatalf("the first spec: %v, %v", first, err)
	}
	out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: with("100"), DryRun: true})
	if err != nil || !strings.Contains(strings.Join(out.GetWarnings(), "\n"), "bootstrap_read_once") {
		t.Errorf("an edit: %v, %v", out, err)
	}
}

// TestAVersionThatCannotOpenTheDiskIsRefused: the disk's version comes from the slot's record. The answer names the
// field, the reason and the way out. An allowed step is a warning, and so is a step between versions that are named only.
func TestAVersionThatCannotOpenTheDiskIsRefused(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	with := func(kind, version string) []byte {
		return changed(t, func(s *group.Spec) {
			s.Workload = group.Workload{Kind: kind, Settings: map[string]string{"version": version}}
		})
	}
	for _, c := range []struct{ kind, data, from, to, says string }{
		{group.WorkloadPatroni, "15", "15", "17.2", "PostgreSQL 17.2 cannot open this disk, which PostgreSQL 15 wrote"},
		{group.WorkloadEtcd, "3.5.0", "3.5.35", "3.7.3", "go to 3.6 first"},
		{group.WorkloadEtcd, "3.6.0", "3.6.16", "3.5.35", "first run `etcdctl downgrade enable 3.5`"},
	} {
		if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: with(c.kind, c.from)}); err != nil {
			t.Fatal(err)
		}
		put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1, VMUUID: "vm", DataFormat: c.data})
		_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: with(c.kind, c.to)})
		if text := fmt.Sprint(err); status.Code(err) != codes.FailedPrecondition || !strings.Contains(text, `VERSION_STEP: workload.settings["version"]: `) || !strings.Contains(text, c.says) || !strings.Contains(text, "(pg-1)") {
			t.Errorf("%s %s to %s: %v", c.kind, c.from, c.to, err)
		}
	}
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1, VMUUID: "vm", DataFormat: "3.6.0"})
	out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: with(group.WorkloadEtcd, "3.7.3"), DryRun: true})
	if warnings := strings.Join(out.GetWarnings(), "\n"); err != nil || !strings.Contains(warnings, "no_way_back: when the last member runs etcd 3.7") {
		t.Errorf("an allowed step: %v, %v", warnings, err)
	}
}

// A plan names the caller of a rollout that has begun. It names none for a spec that was not
// applied.
func TestAPlanNamesNoCallerOfARolloutThatIsNotBegun(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)})
	if err != nil {
		t.Fatal(err)
	}
	put(a, t, store.GroupAcceptedKey("pg"), store.AcceptedSpec{Group: "pg", SpecIndex: out.GetIndex(), Spec: specJSON(t), By: "ann", Request: "apply-1", Term: 1, At: a.now()})
	put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Generation: 1, Target: spec(t).Revision()})
	put(a, t, store.RolloutKey("pg-1"), operation.Rollout{ID: "pg-1", Group: "pg", Generation: 1, To: spec(t).Revision(), State: operation.Running, By: "ann", Request: "apply-1", StartedAt: a.now(), ProgressAt: a.now()})
	for name, c := range map[string]struct {
		spec []byte
		want string
	}{
		"as it is stored": {nil, "ann"},
		"another spec":    {changed(t, func(s *group.Spec) { s.Template.Compose += "    environment:\n      RELEASE: two\n" }), ""},
	} {
		answer, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: "pg", SpecJson: c.spec})
		if err != nil {
			t.Fatal(name, err)
		}
		var plan rollout.Plan
		if err := json.Unmarshal(answer.GetPlanJson(), &plan); err != nil {
			t.Fatal(name, err)
		}
		if plan.Rollout == nil || plan.Rollout.By != c.want || (plan.Rollout.Request == "") != (c.want == "") {
			t.Errorf("%s: rollout %+v, want by %q", name, plan.Rollout, c.want)
		}
	}
}
