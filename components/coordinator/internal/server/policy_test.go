package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

const boundInstance = "cafe001122334455667788990011223344556677"

// put writes a record as the leader or a coordinator would.
func put[T any](a *api, t *testing.T, key string, value T) {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: raw}); err != nil {
		t.Fatal(err)
	}
}

// newAsked returns a group with two Revisions; pg-0 runs the first.
func newAsked(t *testing.T) (a *api, first, second string) {
	t.Helper()
	a = newAPI(t)
	ctx := as(t.Context(), operatorToken)
	two := spec(t)
	two.UpdatePolicy.RequireApproval = true
	two.Template.Compose += "    environment:\n      RELEASE: two\n"
	raw, err := json.Marshal(two)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	one := spec(t)
	first, second = one.Revision(), two.Revision()
	hash := strings.Repeat("0c", 32)
	put(a, t, store.RevisionKey(first), group.RevisionRecord{Digest: first, Group: "pg", Template: one.Template, ComposeHash: hash, Number: 1, CreatedAt: time.Now().Add(-time.Hour)})
	v, err := view.Read(ctx, a.cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	gate, _ := v.FoldGroup(two, time.Now())
	put(a, t, store.GroupPolicyKey("pg"), gate)
	put(a, t, store.SlotKey("pg", "pg-0"), group.SlotRecord{Group: "pg", Slot: "pg-0", InstanceID: boundInstance})
	put(a, t, store.SlotPolicyKey("pg-0"), policy.SlotPolicy{Group: "pg", Slot: "pg-0", InstanceID: boundInstance,
		Allowed: []policy.AllowedRevision{{Revision: first, ComposeHash: hash, Number: 1}}})
	put(a, t, store.AdmissionKey("pg-0"), policy.Admission{Group: "pg", Slot: "pg-0", BootID: "boot", InstanceID: boundInstance, Revision: first, TokenAccessors: []string{"secretish"}})
	return a, first, second
}

func message(err error) string { return status.Convert(err).Message() }

func TestATT15_ApprovalIsWrittenWithTheCallersToken(t *testing.T) {
	a, first, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for _, typed := range []string{second[:4], "pg#2", second} {
		out, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: typed, Note: "CHG-1"})
		if err != nil || out.GetRevision() != second || out.GetNumber() != 2 || out.GetGroup() != "pg" {
			t.Fatalf("approve %s: %v, %v", typed, out, err)
		}
		if changed := typed == second[:4]; out.GetChanged() != changed {
			t.Errorf("approve %s: changed %v", typed, out.GetChanged())
		}
	}
	got, _, err := store.Read[policy.Approval](ctx, a.cfg.Store, store.ApprovalKey(second))
	if err != nil || got.Note != "CHG-1" || !strings.Contains(got.By, "cadre-operator") || strings.Contains(got.By, operatorToken) {
		t.Errorf("record %+v, %v", got, err)
	}
	out, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: strings.Repeat("0c", 32)})
	if err != nil || out.GetRevision() != first {
		t.Errorf("by compose hash: %v, %v", out, err)
	}
	if out, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: second, Withdraw: true}); err != nil || !out.GetChanged() {
		t.Errorf("withdraw: %v, %v", out, err)
	}
	if _, err := a.cfg.Store.Get(ctx, store.ApprovalKey(second)); err == nil {
		t.Error("the approval is still there")
	}
	for typed, want := range map[string]string{
		"pg#9": "no revision #9", "#2": "needs its group", "pg#x": "not the number", "abc": "neither a revision", "zzzz": "neither", "": "neither",
		"ffff": "no revision ffff", "web#1": "no revision #1", second[:31] + "!": "neither",
	} {
		if _, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: typed}); err == nil || !strings.Contains(message(err), want) {
			t.Errorf("approve %q: %v, want %q", typed, err, want)
		}
	}
	if _, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: second, Note: strings.Repeat("x", maxReason+1)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an endless note: %v", err)
	}
}

// TestATT16_OnlyPinnedContentIsApproved: the API does not approve a record that a KV edit wrote
// past the spec's validation.
func TestATT16_OnlyPinnedContentIsApproved(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	pinned := "img@sha256:" + strings.Repeat("a", 64)
	for i, c := range []string{
		"services:\n  a:\n    image: img:latest\n",
		"services:\n  a:\n    image: ${IMAGE}\n",
		"services:\n  a:\n    image: img@sha256:${DIGEST}\n",
		"services:\n  a:\n    build: .\n",
		"services:\n  a:\n    image: " + pinned + "\n  b:\n    image: img\n",
		"services: {a: {image: img}}\n",
		"include: other.yaml\nservices:\n  a:\n    image: " + pinned + "\n",
	} {
		bad := spec(t)
		bad.Template.Compose = c
		digest := bad.Revision()
		put(a, t, store.RevisionKey(digest), group.RevisionRecord{Digest: digest, Group: "pg", Template: bad.Template})
		if _, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: digest}); status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(message(err), "IMAGE_NOT_PINNED: ") {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

func TestRevokeSaysWhomItCutsOff(t *testing.T) {
	a, first, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	instance, revision, provider := apiv1.RevocationKind_REVOCATION_KIND_INSTANCE, apiv1.RevocationKind_REVOCATION_KIND_REVISION, apiv1.RevocationKind_REVOCATION_KIND_KEY_PROVIDER
	for name, c := range map[string]struct {
		kind   apiv1.RevocationKind
		typed  string
		id     string
		slots  []string
		warned bool
	}{
		"by slot":             {instance, "pg-0", boundInstance, []string{"pg-0"}, false},
		"by id":               {instance, strings.ToUpper(boundInstance), boundInstance, []string{"pg-0"}, false},
		"an unknown instance": {instance, "00", "00", nil, true},
		"what runs":           {revision, "pg#1", first, []string{"pg-0"}, false},
		"its hash":            {revision, strings.Repeat("0c", 32), strings.Repeat("0c", 32), []string{"pg-0"}, false},
		"what is to run":      {revision, second, second, nil, true},
		"a key provider":      {provider, "04AB", "04ab", nil, false},
	} {
		out, err := a.Revoke(ctx, &apiv1.RevokeRequest{Kind: c.kind, Id: c.typed, DryRun: true})
		if err != nil || out.GetId() != c.id || !slices.Equal(out.GetSlots(), c.slots) || (len(out.GetWarnings()) > 0) != c.warned || !out.GetChanged() {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	if list, _, _ := a.cfg.Store.List(ctx, store.RevocationsPrefix); len(list) != 0 {
		t.Errorf("dry runs wrote %v", list)
	}
	if _, err := a.Revoke(ctx, &apiv1.RevokeRequest{Kind: instance, Id: "pg-0"}); err == nil || !strings.Contains(message(err), "reason") {
		t.Errorf("without a reason: %v", err)
	}
	for range 2 {
		if _, err := a.Revoke(ctx, &apiv1.RevokeRequest{Kind: instance, Id: "pg-0", Reason: "leak"}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := a.ListAdmissions(ctx, &apiv1.ListAdmissionsRequest{})
	if err != nil || len(list.GetAdmissionStatusesJson()) != 1 || !strings.Contains(string(list.GetAdmissionStatusesJson()[0]), `"code":"PEER_REVOKED"`) {
		t.Errorf("list %s, %v", list.GetAdmissionStatusesJson(), err)
	}
	explained, err := a.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: "pg-0"})
	if text := string(explained.GetExplanationJson()); err != nil || !strings.Contains(text, "leak") || strings.Contains(text, "secretish") {
		t.Errorf("explained %s, %v", text, err)
	}
	if out, err := a.Unrevoke(ctx, &apiv1.UnrevokeRequest{Kind: instance, Id: "pg-0"}); err != nil || !out.GetChanged() {
		t.Errorf("unrevoke: %v, %v", out, err)
	}
	for _, bad := range []*apiv1.RevokeRequest{
		{Id: "x", Reason: "r"}, {Kind: instance, Reason: "r"}, {Kind: instance, Id: "a/b", Reason: "r"}, {Kind: provider, Id: strings.Repeat("a", 301), Reason: "r"},
		{Kind: revision, Id: "ffff", Reason: "r"}, {Kind: instance, Id: "pg-0", Reason: strings.Repeat("r", maxReason+1)},
	} {
		if _, err := a.Revoke(ctx, bad); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.NotFound {
			t.Errorf("revoke %v: %v", bad, err)
		}
	}
}

// TestAGoneSlotIsExplainedByItsDecisions: a query about a removed slot returns its decisions. A
// query about a slot that never existed still returns nothing.
func TestAGoneSlotIsExplainedByItsDecisions(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.DecisionsKey("pg-7"), policy.Decisions{}.Append("pg-7", policy.DecisionEntry{
		At: time.Now(), What: policy.DecidedEvict, BootID: "b00t", Code: policy.CodePeerRevoked, Message: "leak",
	}))
	explained, err := a.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: "pg-7"})
	var e policy.Explanation
	if err != nil || json.Unmarshal(explained.GetExplanationJson(), &e) != nil || e.Group != "pg" || e.State != policy.StateNone ||
		e.Code != policy.CodeSlotUnknown || len(e.Decisions) != 1 || e.Decisions[0].Message != "leak" || e.ChainProblem != "" {
		t.Errorf("explained %s, %v", explained.GetExplanationJson(), err)
	}
	if _, err := a.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: "pg-8"}); status.Code(err) != codes.NotFound {
		t.Errorf("a slot that never was: %v", err)
	}
	if _, err := a.ExplainAdmission(as(t.Context(), a.workload), &apiv1.ExplainAdmissionRequest{Slot: "pg-7"}); status.Code(err) == codes.OK {
		t.Error("a workload may read it")
	}
}

func TestATT25_TheFloorIsRaisedAndNeverLowered(t *testing.T) {
	a, first, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	dry, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{Group: "pg", Revision: "#2", DryRun: true})
	if err != nil || dry.GetNumber() != 2 || dry.GetRevision() != second || !slices.Equal(dry.GetSlots(), []string{"pg-0"}) || !dry.GetChanged() {
		t.Fatalf("dry run: %v, %v", dry, err)
	}
	if out, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{Group: "pg", Revision: second, Reason: "CVE"}); err != nil || !out.GetChanged() {
		t.Fatalf("%v, %v", out, err)
	}
	got, _, err := store.Read[policy.Floor](ctx, a.cfg.Store, store.FloorKey("pg"))
	if err != nil || got.Number != 2 || got.Reason != "CVE" || !strings.Contains(got.By, "cadre-operator") {
		t.Errorf("record %+v, %v", got, err)
	}
	// The leader accepts it.
	v, err := view.Read(ctx, a.cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	gate, _ := v.FoldGroup(v.Specs["pg"].Value, time.Now())
	put(a, t, store.GroupPolicyKey("pg"), gate)
	if _, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{Group: "pg", Revision: first}); err == nil || !strings.HasPrefix(message(err), "REVISION_BELOW_FLOOR") {
		t.Errorf("lower: %v", err)
	}
	past, future := timestamppb.New(time.Now().Add(-time.Minute)), timestamppb.New(time.Now().Add(time.Hour))
	if out, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{NotBefore: past, DryRun: true}); err != nil || out.GetNumber() != 0 || !out.GetChanged() {
		t.Errorf("every group: %v, %v", out, err)
	}
	for _, bad := range []*apiv1.RaiseFloorRequest{
		{}, {Group: "pg"}, {Revision: "#2"}, {Group: "pg", Revision: "#2", NotBefore: past}, {NotBefore: future}, {Group: "pg", Revision: "#3"}, {Group: "no", Revision: "#1"},
	} {
		if _, err := a.RaiseFloor(ctx, bad); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.NotFound {
			t.Errorf("raise %v: %v", bad, err)
		}
	}
}

// An approval covers the env values that slots have of their own, and the answer names these slots.
// Other values need a new approval.
func TestATT15_AnApprovalCoversTheOwnEnvOfSlots(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	s := spec(t)
	s.Template.Env = map[string]string{"COLOR": "blue"}
	put(a, t, store.RevisionKey(s.Revision()), group.RevisionRecord{Digest: s.Revision(), Group: "pg", Template: s.Template, Number: 3, CreatedAt: time.Now()})
	for _, colour := range []string{"red", "black"} {
		s.Instances = []group.InstanceSettings{{Ordinal: 1, Env: map[string]string{"COLOR": colour}}}
		put(a, t, store.GroupSpecKey("pg"), s)
		for _, changed := range []bool{true, false} {
			out, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: s.Revision()})
			if err != nil || out.GetChanged() != changed || !strings.Contains(strings.Join(out.GetWarnings(), "\n"), "values of env that pg-1 has of its own") {
				t.Fatalf("%s: %v, %v", colour, out, err)
			}
		}
		got, _, err := store.Read[policy.Approval](ctx, a.cfg.Store, store.ApprovalKey(s.Revision()))
		if err != nil || got.OwnEnv != s.OwnEnvs(s.Template) || got.OwnEnv == "" {
			t.Errorf("%s: record %+v, %v", colour, got, err)
		}
	}
}
