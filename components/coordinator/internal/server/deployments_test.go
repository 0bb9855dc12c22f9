package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/audit"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// shop is a document of two groups, of which one has a route for the other.
func shop(t testing.TB, change ...func(db, web *group.Spec)) deployment.Document {
	db, web := spec(t), spec(t)
	db.Name, web.Name, web.Workload = "db", "web", group.Workload{}
	db.Backends = []group.Backend{{Name: "pg", Port: 5432, Allow: []string{"web"}}}
	db.Routes = []group.Route{{Name: "db-master", Backend: "pg", Role: "leader"}}
	for _, f := range change {
		f(&db, &web)
	}
	db.Normalize()
	web.Normalize()
	return deployment.Document{Name: "shop", Labels: map[string]string{"team": "sales"}, Groups: []group.Spec{db, web}}
}

func request(t testing.TB, d deployment.Document) *apiv1.ApplyDeploymentRequest {
	t.Helper()
	out := &apiv1.ApplyDeploymentRequest{Name: d.Name, Labels: d.Labels, Reason: "test"}
	for _, s := range d.Groups {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		out.Groups = append(out.Groups, &apiv1.DeploymentGroup{Group: s.Name, SpecJson: raw})
	}
	return out
}

// stored are the specs in the store, by group.
func (a *api) stored(t testing.TB) map[string]string {
	t.Helper()
	entries, _, err := a.cfg.Store.List(t.Context(), store.GroupsPrefix)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if name, is := strings.CutSuffix(strings.TrimPrefix(e.Key, store.GroupsPrefix), "/spec"); is {
			out[name] = string(e.Value)
		}
	}
	return out
}

// contents are the digests of the specs that are kept for a deployment.
func (a *api) contents(t testing.TB, name string) []string {
	t.Helper()
	entries, _, err := a.cfg.Store.List(t.Context(), store.DeploymentSpecsOf(name))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimPrefix(e.Key, store.DeploymentSpecsOf(name)))
	}
	return out
}

func (a *api) applyDeployment(t testing.TB, req *apiv1.ApplyDeploymentRequest) *apiv1.ApplyDeploymentResponse {
	t.Helper()
	got, err := deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestADeploymentFromItsFirstVersionToItsDeletion(t *testing.T) {
	a := newAPI(t)
	d := deploymentService{s: a.Server}
	ctx := as(t.Context(), operatorToken)
	first := request(t, shop(t))
	first.DryRun, first.ExpectAbsent = true, true
	if got := a.applyDeployment(t, first); !got.GetChanged() || got.GetVersion() != 1 || len(a.stored(t)) != 0 || len(a.contents(t, "shop")) != 0 {
		t.Fatalf("a dry run: %v, stored %v", got, a.stored(t))
	}
	first.DryRun = false
	got := a.applyDeployment(t, first)
	before := a.stored(t)
	if !got.GetChanged() || got.GetVersion() != 1 || len(before) != 2 || got.GetGroups()[0].GetIndex() == 0 || got.GetGroups()[0].GetIndex() != got.GetGroups()[1].GetIndex() {
		t.Fatalf("the first version: %v", got)
	}
	// One transaction wrote both specs, so both name the same call.
	for name := range before {
		if by, id, err := store.AppliedBy(t.Context(), a.cfg.Store, name, got.GetGroups()[0].GetIndex()); err != nil || id != got.GetRequestId() || by == "" {
			t.Errorf("%s is applied by %q, %q: %v", name, by, id, err)
		}
	}
	if again := a.applyDeployment(t, request(t, shop(t))); again.GetChanged() || again.GetVersion() != 1 {
		t.Errorf("the same document again: %v", again)
	}
	if _, err := d.ApplyDeployment(ctx, first); status.Code(err) != codes.Aborted {
		t.Errorf("a second creation: %v", err)
	}

	// A call that crashed after its first step left a content behind: no version refers to it.
	left := shop(t).Groups[1]
	left.Replicas = 9
	put(a, t, store.DeploymentSpecKey("shop", strings.Repeat("e", 64)), left)

	// A change of one group writes that group alone.
	second := request(t, shop(t, func(_, web *group.Spec) { web.Replicas = 5 }))
	second.ExpectedVersion = 1
	got = a.applyDeployment(t, second)
	now := a.stored(t)
	if got.GetVersion() != 2 || now["db"] != before["db"] || now["web"] == before["web"] || got.GetGroups()[0].GetChanged() || !got.GetGroups()[1].GetChanged() {
		t.Fatalf("the second version: %v", got)
	}
	if kept := a.contents(t, "shop"); len(kept) != 3 || slices.Contains(kept, strings.Repeat("e", 64)) {
		t.Errorf("contents of two versions: %v", kept)
	}
	if _, err := d.ApplyDeployment(ctx, second); status.Code(err) != codes.Aborted {
		t.Errorf("a call about version 1: %v", err)
	}

	// A group that is edited alone stays a member, and is shown as drift.
	lone := shop(t, func(db, _ *group.Spec) { db.Meta = map[string]string{"a": "b"} }).Groups[0]
	raw, err := json.Marshal(lone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "db", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	read, err := d.GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: "shop"})
	if err != nil || !slices.Equal(read.GetDrifted(), []string{"db"}) || len(read.GetDeployment().GetVersions()) != 2 {
		t.Errorf("after a lone edit: %v, %v", read, err)
	}

	undo := a.applyDeployment(t, &apiv1.ApplyDeploymentRequest{Name: "shop", Undo: true, Reason: "five are too many"})
	if undo.GetVersion() != 3 || undo.GetOf() != 1 || !maps.Equal(a.stored(t), before) {
		t.Errorf("the undo: %v, stored %v", undo, a.stored(t))
	}
	if _, err := d.ApplyDeployment(ctx, &apiv1.ApplyDeploymentRequest{Name: "shop", Undo: true}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "--to 2") {
		t.Errorf("an undo of the undo: %v", err)
	}
	if _, err := d.ApplyDeployment(ctx, &apiv1.ApplyDeploymentRequest{Name: "shop", Undo: true, UndoTo: 9}); status.Code(err) != codes.NotFound {
		t.Errorf("an undo to an unknown version: %v", err)
	}

	clone, err := deployment.Clone(shop(t), "shop-staging", "replicas=1")
	if err != nil {
		t.Fatal(err)
	}
	staging := request(t, clone)
	staging.ExpectAbsent = true
	a.applyDeployment(t, staging)
	now = a.stored(t)
	if len(now) != 4 || now["db"] != before["db"] || now["web"] != before["web"] {
		t.Errorf("the clone touched its original: %v", now)
	}
	list, err := d.ListDeployments(ctx, &apiv1.ListDeploymentsRequest{})
	if err != nil || len(list.GetDeployments()) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}

	gone := &apiv1.DeleteDeploymentRequest{Name: "shop-staging", DeleteDisks: true, Reason: "done", DryRun: true}
	if out, err := d.DeleteDeployment(ctx, gone); err != nil || len(out.GetGroups()) != 2 {
		t.Errorf("a dry run of the deletion: %v, %v", out, err)
	}
	gone.DryRun = false
	if _, err := d.DeleteDeployment(ctx, gone); err != nil {
		t.Fatal(err)
	}
	deletes, _, err := store.ReadAll[store.DeleteGroup](t.Context(), a.cfg.Store, store.DeletePrefix)
	if err != nil || len(deletes) != 2 || deletes[0].Value.Group != "shop-staging-db" || !deletes[1].Value.DeleteDisks {
		t.Errorf("requests to delete: %+v, %v", deletes, err)
	}
	if len(a.contents(t, "shop-staging")) != 0 || len(a.contents(t, "shop")) != 3 {
		t.Errorf("contents: %v and %v", a.contents(t, "shop-staging"), a.contents(t, "shop"))
	}
	if _, err := d.GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: "shop-staging"}); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted deployment: %v", err)
	}
	var acts []string
	entries, _, err := store.ReadAll[audit.Entry](t.Context(), a.cfg.Store, store.AuditPrefix)
	if err != nil && len(store.RecordErrors(err)) == 0 {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Value.Object, store.DeploymentsPrefix) {
			acts = append(acts, e.Value.Verb+" "+strings.TrimPrefix(e.Value.Object, store.DeploymentsPrefix))
		}
	}
	want := []string{"apply-deployment shop", "apply-deployment shop", "undo-deployment shop", "apply-deployment shop-staging", "delete-deployment shop-staging"}
	if !slices.Equal(acts, want) {
		t.Errorf("audited: %v, want %v", acts, want)
	}
}

// A group that was deleted alone must not keep its deployment from being changed or deleted.
func TestADeploymentOutlivesAGroupOfIt(t *testing.T) {
	a := newAPI(t)
	d, ctx := deploymentService{s: a.Server}, as(t.Context(), operatorToken)
	a.applyDeployment(t, request(t, shop(t)))
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.GroupSpecKey("web")}); err != nil {
		t.Fatal(err)
	}
	read, err := d.GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: "shop"})
	if err != nil || !slices.Equal(read.GetDrifted(), []string{"web"}) {
		t.Errorf("drift: %v, %v", read.GetDrifted(), err)
	}
	doc := shop(t)
	doc.Groups = doc.Groups[:1]
	doc.Groups[0].Backends[0].Allow = nil
	if got := a.applyDeployment(t, request(t, doc)); !slices.Equal(got.GetLeaving(), []string{"web"}) {
		t.Errorf("leaving: %v", got)
	}
	a.applyDeployment(t, request(t, shop(t)))
	if _, made := a.stored(t)["web"]; !made {
		t.Error("an apply makes a missing group again")
	}
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.GroupSpecKey("web")}); err != nil {
		t.Fatal(err)
	}
	out, err := d.DeleteDeployment(ctx, &apiv1.DeleteDeploymentRequest{Name: "shop", KeepCvms: true, Reason: "r"})
	if err != nil || !slices.Equal(out.GetGroups(), []string{"db"}) {
		t.Errorf("the deletion: %v, %v", out, err)
	}
}

func TestADeploymentIsRefusedAsAWhole(t *testing.T) {
	a := newAPI(t)
	d := deploymentService{s: a.Server}
	ctx := as(t.Context(), operatorToken)
	refusal := func(doc deployment.Document, code codes.Code, wants ...string) {
		t.Helper()
		_, err := d.ApplyDeployment(ctx, request(t, doc))
		if status.Code(err) != code {
			t.Errorf("got %v, want %v", err, code)
		}
		for _, want := range wants {
			if !strings.Contains(message(err), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	refusal(shop(t, func(db, web *group.Spec) {
		db.Replicas, web.Template.OSImage = -2, ""
		db.Backends[0].Allow = []string{"wbe"}
		web.Backends, web.Routes = []group.Backend{{Name: "http", Port: 80}}, []group.Route{{Name: "db-master", Backend: "http"}}
		web.AppID = ownApp
	}), codes.InvalidArgument, `group["db"].replicas`, `group["web"].template.os_image`, `group["db"].backend["pg"].allow[0]`, `group["web"].route["db-master"]`)
	refusal(shop(t, func(_, web *group.Spec) { web.AppID = ownApp }), codes.InvalidArgument, "IDENTITY_FORBIDDEN", `group["web"].app_id`)
	refusal(deployment.Document{Name: "Shop"}, codes.InvalidArgument, "name:")
	if len(a.stored(t)) != 0 {
		t.Fatal("a refused document was written")
	}

	a.applyDeployment(t, request(t, shop(t)))
	other := shop(t)
	other.Name = "other"
	refusal(other, codes.InvalidArgument, `belongs to the deployment "shop"`)

	// A group that is being deleted holds the whole document back.
	if _, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "web", KeepCvms: true, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	before := a.stored(t)
	refusal(shop(t, func(db, _ *group.Spec) { db.Meta = map[string]string{"a": "b"} }), codes.FailedPrecondition, `group["web"]: GROUP_DELETING`)
	if !maps.Equal(before, a.stored(t)) {
		t.Error("a part of a refused document was written")
	}
}

// TestAnUndoOfADeploymentNeverPassesTheFloor: nor does it pass a revocation. A lone undo of a group is refused there too.
func TestAnUndoOfADeploymentNeverPassesTheFloor(t *testing.T) {
	a := newAPI(t)
	a.applyDeployment(t, request(t, shop(t)))
	first := shop(t).Groups[1]
	a.applyDeployment(t, request(t, shop(t, func(_, web *group.Spec) { web.Template.InstanceType = "tdx.large" })))
	put(a, t, store.GroupPolicyKey("web"), policy.GroupPolicy{Group: "web", Last: 2, Floor: policy.AcceptedFloor{Number: 2}, Revisions: map[string]policy.Numbered{first.Revision(): {Number: 1, Content: group.Content(first.Template)}}})
	before := a.stored(t)
	_, err := deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), &apiv1.ApplyDeploymentRequest{Name: "shop", Undo: true})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), `group["web"]: REVISION_BELOW_FLOOR`) {
		t.Errorf("the undo: %v", err)
	}
	if !maps.Equal(before, a.stored(t)) {
		t.Error("it was written")
	}
}

// TestAnOperatorOfOneGroupWritesNoOtherGroupOfADeployment: the right to a deployment is the right to each of its groups.
func TestAnOperatorOfOneGroupWritesNoOtherGroupOfADeployment(t *testing.T) {
	a := newAPI(t)
	a.applyDeployment(t, request(t, shop(t)))
	a.add(t, annToken, "ann", store.RoleOperate, "web")
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	d, ctx := deploymentService{s: a.Server}, as(t.Context(), annToken)
	before := a.stored(t)
	for name, doc := range map[string]deployment.Document{
		"its own group":     shop(t, func(_, web *group.Spec) { web.Replicas = 2 }),
		"the other group":   shop(t, func(db, _ *group.Spec) { db.Replicas = 5 }),
		"without the other": {Name: "shop", Groups: shop(t).Groups[1:]},
	} {
		if _, err := d.ApplyDeployment(ctx, request(t, doc)); status.Code(err) != codes.PermissionDenied || !strings.Contains(message(err), "of group db") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.DeleteDeployment(ctx, &apiv1.DeleteDeploymentRequest{Name: "shop", KeepCvms: true, Reason: "r"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the deletion: %v", err)
	}
	if !maps.Equal(before, a.stored(t)) {
		t.Error("a spec was written")
	}
	if _, err := d.GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: "shop"}); err != nil {
		t.Errorf("a read: %v", err)
	}
}

// TestAContentIsNotCollectedUnderAVersionThatNamesIt: a call lists a content that no version names, another call writes a
// version that names it, and then the first call collects. Consul keeps the index of a value that is written again.
func TestAContentIsNotCollectedUnderAVersionThatNamesIt(t *testing.T) {
	a := newAPI(t)
	d, ctx := deploymentService{s: a.Server}, as(t.Context(), operatorToken)
	a.applyDeployment(t, request(t, shop(t)))
	second := request(t, shop(t, func(_, web *group.Spec) { web.Replicas = 5 }))
	left := newEdit("web", second.GetGroups()[1].GetSpecJson(), 0)
	if err := a.cfg.Store.Commit(ctx, store.Op{Kind: store.OpPut, Key: store.DeploymentSpecKey("shop", left.digest), Value: left.raw}); err != nil {
		t.Fatal(err)
	}
	first, err := d.read(ctx, "shop", "", "first")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := first.unreferenced(ctx, first.record)
	if err != nil || len(stale) != 1 {
		t.Fatalf("%v, %v", stale, err)
	}
	a.applyDeployment(t, second)
	first.collect(ctx, "shop", stale)
	if read, err := d.GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: "shop"}); err != nil || len(read.GetDrifted()) != 0 {
		t.Errorf("a version without its content: %v, %v", read, err)
	}
}

// TestOneOfTwoDeploymentsTakesAGroupIn: both calls were judged before one of them wrote.
func TestOneOfTwoDeploymentsTakesAGroupIn(t *testing.T) {
	a := newAPI(t)
	d, ctx := deploymentService{s: a.Server}, as(t.Context(), operatorToken)
	for _, g := range request(t, shop(t)).GetGroups() {
		if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: g.GetGroup(), SpecJson: g.GetSpecJson()}); err != nil {
			t.Fatal(err)
		}
	}
	slow, err := d.read(ctx, "other", "", "slow")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range request(t, shop(t)).GetGroups() {
		slow.edits = append(slow.edits, newEdit(g.GetGroup(), g.GetSpecJson(), 0))
	}
	if err := slow.judge(ctx); err != nil {
		t.Fatal(err)
	}
	got := a.applyDeployment(t, request(t, shop(t)))
	if by, id, err := store.AppliedBy(ctx, a.cfg.Store, "web", got.GetGroups()[1].GetIndex()); err != nil || by == "" || id != got.GetRequestId() {
		t.Errorf("web is applied by %q, %q: %v", by, id, err)
	}
	if err := slow.commit(ctx, slow.record.Append(slow.next())); status.Code(err) != codes.Aborted {
		t.Errorf("two deployments have one group: %v", err)
	}
}

// TestAViewerDeletesNoDeployment: also not one whose groups are all gone, so that no spec of it has a rule.
func TestAViewerDeletesNoDeployment(t *testing.T) {
	a := newAPI(t)
	d := deploymentService{s: a.Server}
	a.applyDeployment(t, request(t, shop(t)))
	a.add(t, annToken, "ann", store.RoleView)
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := d.DeleteDeployment(as(t.Context(), annToken), &apiv1.DeleteDeploymentRequest{Name: "shop", KeepCvms: true, Reason: "r"})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("a viewer: %v", err)
		}
		for _, name := range []string{"db", "web"} {
			if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.GroupSpecKey(name)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := d.DeleteDeployment(as(t.Context(), operatorToken), &apiv1.DeleteDeploymentRequest{Name: "shop", KeepCvms: true, Reason: "r"}); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

// TestAnEndlessDocumentIsRefusedUnread: the right to each of its groups is a question to Consul.
func TestAnEndlessDocumentIsRefusedUnread(t *testing.T) {
	a := newAPI(t)
	doc := request(t, shop(t))
	for range deployment.MaxGroups {
		doc.Groups = append(doc.Groups, &apiv1.DeploymentGroup{Group: "x", SpecJson: []byte("{")})
	}
	for i := range deployment.MaxLabels + 1 {
		doc.Labels[strings.Repeat("l", i+1)] = "?"
	}
	_, err := deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), doc)
	if text := message(err); status.Code(err) != codes.InvalidArgument || !strings.Contains(text, "group: there are 17") || !strings.Contains(text, "labels: there are") || strings.Contains(text, `group["x"]`) {
		t.Errorf("got %v", err)
	}
	_, err = deploymentService{s: a.Server}.DeleteDeployment(as(t.Context(), operatorToken), &apiv1.DeleteDeploymentRequest{Name: "shop", KeepCvms: true, Reason: "r", RequestId: strings.Repeat("r", 4096)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an endless request id: %v", err)
	}
}

// TestADocumentClosesNoCycleThroughAnotherGroup: the cluster's x is after db, and the document makes db after web, and web after x.
func TestADocumentClosesNoCycleThroughAnotherGroup(t *testing.T) {
	a := newAPI(t)
	a.applyDeployment(t, request(t, shop(t)))
	x := shop(t).Groups[1]
	x.Name, x.After = "x", []string{"db"}
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: "x", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	doc := shop(t, func(db, web *group.Spec) { db.After, web.After = []string{"web"}, []string{"x"} })
	_, err = deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), request(t, doc))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(message(err), `group["db"].after[0]`) || !strings.Contains(message(err), "cycle") {
		t.Errorf("got %v", err)
	}
}

// TestADeploymentTakesNoGroupThatItReadAsAbsent: another caller made the group since.
func TestADeploymentTakesNoGroupThatItReadAsAbsent(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	web := request(t, shop(t, func(_, web *group.Spec) { web.Replicas = 5 })).GetGroups()[1]
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: web.GetSpecJson()}); err != nil {
		t.Fatal(err)
	}
	doc := request(t, shop(t))
	for _, g := range doc.GetGroups() {
		g.ExpectAbsent = true
	}
	before := a.stored(t)
	if _, err := (deploymentService{s: a.Server}).ApplyDeployment(ctx, doc); status.Code(err) != codes.AlreadyExists || !strings.Contains(message(err), `group["web"]: GROUP_EXISTS`) {
		t.Errorf("got %v", err)
	}
	if !maps.Equal(before, a.stored(t)) {
		t.Error("a group of another caller was taken over")
	}
}

// TestADocumentTurnsTheOrderOfItsGroups: web was after db, and db becomes after web in one call. The leader accepts both, each at once.
func TestADocumentTurnsTheOrderOfItsGroups(t *testing.T) {
	a := newAPI(t)
	a.applyDeployment(t, request(t, shop(t, func(_, web *group.Spec) { web.After = []string{"db"} })))
	for name := range a.stored(t) {
		raw, index, err := store.ReadRaw(t.Context(), a.cfg.Store, store.GroupSpecKey(name))
		if err != nil {
			t.Fatal(err)
		}
		put(a, t, store.GroupAcceptedKey(name), store.AcceptedSpec{Group: name, SpecIndex: index, Spec: raw})
	}
	got := a.applyDeployment(t, request(t, shop(t, func(db, _ *group.Spec) { db.After = []string{"web"} })))
	if got.GetVersion() != 2 {
		t.Errorf("got %v", got)
	}
	records, err := view.Read(t.Context(), a.cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "web"} {
		if err := a.cfg.Validator.Stored(records, name); err != nil {
			t.Errorf("the leader refuses %s: %v", name, err)
		}
	}
	_, err = deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), request(t, shop(t, func(db, web *group.Spec) { db.After, web.After = []string{"web"}, []string{"db"} })))
	if text := message(err); status.Code(err) != codes.InvalidArgument || strings.Count(text, "closes a cycle") != 2 {
		t.Errorf("a cycle within the document: %v", err)
	}
}

// TestAnUnreadableDeploymentLetsNoGroupJoinAnother: the group may belong to it. A deployment that takes no group in goes on.
func TestAnUnreadableDeploymentLetsNoGroupJoinAnother(t *testing.T) {
	a := newAPI(t)
	a.applyDeployment(t, request(t, shop(t)))
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.DeploymentKey("shop"), Value: []byte(`{"name":"shop","new":1}`)}); err != nil {
		t.Fatal(err)
	}
	other := shop(t)
	other.Name = "other"
	before := a.stored(t)
	_, err := deploymentService{s: a.Server}.ApplyDeployment(as(t.Context(), operatorToken), request(t, other))
	if text := message(err); status.Code(err) != codes.FailedPrecondition || !strings.Contains(text, "record deployments/shop") || !strings.Contains(text, "delete it") {
		t.Errorf("got %v", err)
	}
	list, err := deploymentService{s: a.Server}.ListDeployments(as(t.Context(), operatorToken), &apiv1.ListDeploymentsRequest{})
	if err != nil || len(list.GetDeployments()) != 0 || !slices.Equal(list.GetUnreadable(), []string{"shop"}) {
		t.Errorf("listed: %v, %v", list, err)
	}
	if !maps.Equal(before, a.stored(t)) {
		t.Error("a group of the unreadable deployment was taken over")
	}
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.DeploymentKey("shop")}); err != nil {
		t.Fatal(err)
	}
	a.applyDeployment(t, request(t, other))
	if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.DeploymentKey("shop"), Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	other.Groups[1].Replicas = 4
	if got := a.applyDeployment(t, request(t, other)); got.GetVersion() != 2 {
		t.Errorf("got %v", got)
	}
}
