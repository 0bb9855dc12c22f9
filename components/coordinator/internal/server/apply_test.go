package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
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

// An operator who asks whose spec a group runs finds the token's name in the coordinator's log. The index on
// the same line is the accepted spec's spec_index.
func TestTheLogNamesTheTokenThatAppliedASpec(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	var log bytes.Buffer
	a.cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t), DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "spec applied") {
		t.Errorf("a dry run says that a spec was applied: %s", &log)
	}
	log.Reset()
	out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := a.issuer.Who(t.Context(), operatorToken)
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Msg       string `json:"msg"`
		Group     string `json:"group"`
		SpecIndex uint64 `json:"spec_index"`
		By        string `json:"by"`
	}
	for text := range bytes.Lines(log.Bytes()) {
		if bytes.Contains(text, []byte(`"spec applied"`)) {
			if err := json.Unmarshal(text, &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line.Group != "pg" || line.By != who || line.SpecIndex != out.GetIndex() || line.SpecIndex == 0 {
		t.Errorf("log %q; want group pg, spec_index %d, by %q", log.String(), out.GetIndex(), who)
	}
	if strings.Contains(log.String(), operatorToken) {
		t.Error("the log holds the token itself")
	}
}

// A spec that is applied while its group is being deleted would go with the group: it is
// refused with the way out, in a dry run as well, until the deletion is taken back.
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

// A switch that cannot be read says nothing, so nothing is written beside it; the answer names
// it and the way out, which works.
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

// A deletion that begins between a caller's look at the records and its write takes no spec
// with it: one of the two is refused.
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
	err = c.writeSpec(ctx, "pg", changed(t, func(s *group.Spec) { s.Replicas = 5 }), index)
	if _, now, _ := store.ReadRaw(ctx, c.store, store.GroupSpecKey("pg")); status.Code(err) != codes.Aborted || now != index {
		t.Errorf("%v, index %d, before %d", err, now, index)
	}
}

// Of two callers who make a group of one name with two specs one is told; the same spec is
// taken over, since a caller that lost the first answer asks again.
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

// awaitView waits until the coordinator has seen what was written.
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

// A Slot is pinned to what is recorded, and to nothing else; what the group leaves out is told
// by name.
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
		t.Errorf("a revision that nobody knows: %v", err)
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
	// That is a matter of the Slot that was pinned before, and of no other edit.
	edit := pinned(first)
	edit.SpecJson = bytes.Replace(edit.GetSpecJson(), []byte(`"pins":"[]"`), []byte(`"pins":"as they were"`), 1)
	out, err := a.ApplyGroup(ctx, edit)
	if warnings := strings.Join(out.GetWarnings(), "\n"); err != nil || !out.GetChanged() || !strings.Contains(warnings, `instance["1"].pinned_revision: the slot stays where it is: REVISION_BELOW_FLOOR`) {
		t.Errorf("an edit beside a pin that stood before: %v, %v", out, err)
	}
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1, VMUUID: "vm"})
	out, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", DryRun: true, SpecJson: changed(t, func(s *group.Spec) {
		s.Replicas, s.Without = 2, []string{"pg-1"}
	})})
	if err != nil || strings.Join(out.GetLeaving(), " ") != "pg-1" || strings.Join(out.GetHeldDisks(), " ") != "pg-1" {
		t.Errorf("leaving %v, held disks %v, %v", out.GetLeaving(), out.GetHeldDisks(), err)
	}
}

// TestADryRunWarnsOfWhatPatroniReadsOnce: the warning comes before anything is written.
func TestADryRunWarnsOfWhatPatroniReadsOnce(t *testing.T) {
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
