package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/audit"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

const (
	annToken  = "5c0e7d9a-93b4-4a43-9a55-0a3b1f0a7b21"
	bobToken  = "6d1f8e0b-04c5-4b54-8b66-1b4c2a1b8c32"
	nextToken = "7e2a9f1c-15d6-4c65-9c77-2c5d3b2c9d43"
)

// add adds an operator with the first token.
func (a *api) add(t *testing.T, token, name string, role store.Role, groups ...string) {
	t.Helper()
	if _, err := a.AddOperator(as(t.Context(), operatorToken), &apiv1.AddOperatorRequest{
		Name: name, Role: string(role), Groups: groups, Sha256: digestOf(token), Expires: timestamppb.New(a.now().Add(90 * 24 * time.Hour)),
	}); err != nil {
		t.Fatal(err)
	}
}

// use makes a call over the checks of a connection.
func use(t *testing.T, s *Server, token string) error {
	t.Helper()
	if err := s.checkOperator(t.Context(), token); err != nil {
		return wire(err)
	}
	return ask(t, s, token)
}

// onSlot returns another coordinator of the same cluster.
func (a *api) onSlot(slot string) *Server {
	cfg := a.cfg
	cfg.Slot = slot
	return New(cfg)
}

// TestCTL13_AnOperatorsTokenIsMadeAtItsFirstUseAndEnds: the record has the digest alone. The first
// use creates the token with its end, on any coordinator, once. The removal works at once on every
// coordinator, and the token is not created again.
func TestCTL13_AnOperatorsTokenIsMadeAtItsFirstUseAndEnds(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleView)
	if a.knows(t, annToken) {
		t.Fatal("the token is there before its first use")
	}
	text, err := a.cfg.Store.Get(t.Context(), store.OperatorKey("ann"))
	if err != nil || strings.Contains(string(text.Value), annToken) || !strings.Contains(string(text.Value), digestOf(annToken)) {
		t.Fatalf("the record is %s, %v", text.Value, err)
	}
	all := []*Server{a.Server, a.onSlot("coordinator-1"), a.onSlot("coordinator-2")}
	var together sync.WaitGroup
	for _, s := range all {
		together.Go(func() {
			if err := use(t, s, annToken); err != nil {
				t.Errorf("%s: %v", s.cfg.Slot, err)
			}
		})
	}
	together.Wait()
	own, _, err := a.consul.ACL().TokenReadSelf(&consul.QueryOptions{Token: annToken})
	if err != nil || own.ExpirationTime == nil || own.AccessorID != store.OperatorAccessor(digestOf(annToken)) {
		t.Fatalf("the token is %+v, %v", own, err)
	}
	list, err := a.ListOperators(as(t.Context(), annToken), &apiv1.ListOperatorsRequest{})
	if got := list.GetOperators(); err != nil || len(got) != 2 || got[0].GetName() != "first" || got[1].GetName() != "ann" || got[1].GetUsed() == nil || got[0].GetExpires() != nil {
		t.Errorf("list %v, %v", got, err)
	}
	show, err := a.ShowOperator(as(t.Context(), annToken), &apiv1.ShowOperatorRequest{})
	if err != nil || show.GetOperator().GetName() != "ann" || show.GetOperator().GetRole() != "view" {
		t.Errorf("show %v, %v", show, err)
	}
	if _, err := a.RemoveOperator(as(t.Context(), annToken), &apiv1.RemoveOperatorRequest{Name: "ann"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a view token removes an operator: %v", err)
	}
	if _, err := all[1].RemoveOperator(as(t.Context(), operatorToken), &apiv1.RemoveOperatorRequest{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range append(all, a.onSlot("coordinator-1")) {
		if err := use(t, s, annToken); status.Code(err) != codes.PermissionDenied || a.knows(t, annToken) {
			t.Errorf("%s after the removal: %v", s.cfg.Slot, err)
		}
	}
	if _, err := a.AddOperator(as(t.Context(), operatorToken), &apiv1.AddOperatorRequest{
		Name: "ann", Role: "view", Sha256: digestOf(annToken), Expires: timestamppb.New(a.now().Add(time.Hour)),
	}); status.Code(err) != codes.InvalidArgument || !strings.Contains(message(err), "was used before") {
		t.Errorf("the same token again: %v", err)
	}
}

// TestCTL13_ATokenThatConsulLostStaysLost: an administrator of Consul deleted an operator's token,
// or its time ended. The record still names it.
func TestCTL13_ATokenThatConsulLostStaysLost(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleView)
	a.add(t, bobToken, "bob", store.RoleView)
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	a.forget(t, annToken)
	a.mu.Lock()
	a.offset = 90*24*time.Hour - time.Second
	a.mu.Unlock()
	for _, token := range []string{annToken, bobToken} {
		for _, s := range []*Server{a.Server, a.onSlot("coordinator-1")} {
			if err := use(t, s, token); status.Code(err) != codes.PermissionDenied || a.knows(t, token) {
				t.Errorf("%s: %v", s.cfg.Slot, err)
			}
		}
	}
}

// TestCTL13_ARecordByPlainKVIsHeldToTheRules: an admin writes records of operators by plain KV.
func TestCTL13_ARecordByPlainKVIsHeldToTheRules(t *testing.T) {
	a := newAPI(t)
	good := store.OperatorRecord{Name: "ann", Role: store.RoleView, SHA256: digestOf(annToken), Expires: a.now().Add(time.Hour).UTC(), By: "by hand", At: a.now().UTC()}
	for name, change := range map[string]func(*store.OperatorRecord){
		"an end after 400 days": func(r *store.OperatorRecord) { r.Expires = a.now().Add(400 * 24 * time.Hour).UTC() },
		"an end in the past":    func(r *store.OperatorRecord) { r.Expires = a.now().Add(-time.Hour).UTC() },
		"another name":          func(r *store.OperatorRecord) { r.Name = "bob" },
		"an unknown role":       func(r *store.OperatorRecord) { r.Role = "root" },
		"groups of a view role": func(r *store.OperatorRecord) { r.Groups = []string{"pg"} },
	} {
		r := good
		change(&r)
		put(a, t, store.OperatorKey("ann"), r)
		if err := use(t, a.Server, annToken); status.Code(err) != codes.PermissionDenied || a.knows(t, annToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	put(a, t, store.OperatorKey("ann"), "no record")
	put(a, t, store.OperatorKey("bob"), store.OperatorRecord{Name: "bob", Role: store.RoleView, SHA256: digestOf(bobToken), Expires: good.Expires, By: "by hand", At: good.At})
	if err := use(t, a.Server, bobToken); err != nil {
		t.Errorf("a good record next to an unreadable one: %v", err)
	}
	list, err := a.ListOperators(as(t.Context(), operatorToken), &apiv1.ListOperatorsRequest{})
	if err != nil || len(list.GetOperators()) != 3 || list.GetOperators()[1].GetFault() == "" {
		t.Errorf("list %v, %v", list.GetOperators(), err)
	}
	if _, err := a.RemoveOperator(as(t.Context(), operatorToken), &apiv1.RemoveOperatorRequest{Name: "ann"}); err != nil {
		t.Errorf("the removal of an unreadable record: %v", err)
	}
}

// TestCTL13_ARotatedTokenEndsWithTheFirstUseOfTheNext.
func TestCTL13_ARotatedTokenEndsWithTheFirstUseOfTheNext(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleOperate, a.group(t))
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	ends := timestamppb.New(a.now().Add(48 * time.Hour))
	for range 2 {
		if _, err := a.RotateOperator(as(t.Context(), operatorToken), &apiv1.RotateOperatorRequest{Name: "ann", Sha256: digestOf(nextToken), Expires: ends}); err != nil {
			t.Fatal(err)
		}
	}
	if err := use(t, a.Server, annToken); err != nil {
		t.Errorf("the present token before the first use of the next: %v", err)
	}
	if err := use(t, a.onSlot("coordinator-1"), nextToken); err != nil {
		t.Fatal(err)
	}
	if err := use(t, a.Server, annToken); status.Code(err) != codes.PermissionDenied || a.knows(t, annToken) {
		t.Errorf("the replaced token: %v", err)
	}
	own, _, err := a.consul.ACL().TokenReadSelf(&consul.QueryOptions{Token: nextToken})
	if err != nil || !own.ExpirationTime.Equal(ends.AsTime()) {
		t.Errorf("the next token is %+v, %v", own, err)
	}
	r, _, err := store.Read[store.OperatorRecord](t.Context(), a.cfg.Store, store.OperatorKey("ann"))
	if err != nil || r.SHA256 != digestOf(nextToken) || r.Next != "" || r.Check() != nil {
		t.Errorf("the record is %+v, %v", r, err)
	}
	// Without an entry the leader would report an edit in Consul KV.
	record, err := a.cfg.Store.Get(t.Context(), store.OperatorKey("ann"))
	name, nameErr := a.issuer.NameOf(t.Context(), nextToken)
	entries := a.chain(t)
	last := entries[len(entries)-1]
	if err != nil || nameErr != nil || last.Object != record.Key || last.After != audit.ValueDigest(record.Value, true) || last.Who != audit.Operator || last.By != name {
		t.Errorf("the last entry is %+v, of %q; %v, %v", last, name, err, nameErr)
	}
}

// group applies the group pg with the first token, and returns its name.
func (a *api) group(t *testing.T) string {
	t.Helper()
	if _, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	return "pg"
}

func TestOperatorsRefuseBadInput(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleAdmin)
	a.add(t, bobToken, "bob", store.RoleAdmin)
	ctx := as(t.Context(), operatorToken)
	day := 24 * time.Hour
	for want, change := range map[string]func(*apiv1.AddOperatorRequest){
		"name: operator ann exists already":         func(r *apiv1.AddOperatorRequest) { r.Name = "ann" },
		"name: \"A b\" is not a name":               func(r *apiv1.AddOperatorRequest) { r.Name = "A b" },
		"name: first is the operator":               func(r *apiv1.AddOperatorRequest) { r.Name = "first" },
		"role: \"root\" is unknown":                 func(r *apiv1.AddOperatorRequest) { r.Role = "root" },
		"groups: there is no group none":            func(r *apiv1.AddOperatorRequest) { r.Groups = []string{"none"} },
		"groups: the role approve covers all":       func(r *apiv1.AddOperatorRequest) { r.Role, r.Groups = "approve", []string{"pg"} },
		"sha256: is not a digest":                   func(r *apiv1.AddOperatorRequest) { r.Sha256 = annToken },
		"sha256: the token is the one of operator ": func(r *apiv1.AddOperatorRequest) { r.Sha256 = digestOf(annToken) },
		"expires: is missing":                       func(r *apiv1.AddOperatorRequest) { r.Expires = nil },
		"expires: the token would live for 400":     func(r *apiv1.AddOperatorRequest) { r.Expires = timestamppb.New(a.now().Add(400*day + time.Hour)) },
		"expires: the token would end in":           func(r *apiv1.AddOperatorRequest) { r.Expires = timestamppb.New(a.now().Add(time.Minute)) },
	} {
		req := &apiv1.AddOperatorRequest{Name: "eve", Role: "operate", Sha256: digestOf(nextToken), Expires: timestamppb.New(a.now().Add(day))}
		change(req)
		if _, err := a.AddOperator(ctx, req); err == nil || !strings.HasPrefix(message(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := a.RemoveOperator(ctx, &apiv1.RemoveOperatorRequest{Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown operator: %v", err)
	}
	if _, err := a.RemoveOperator(ctx, &apiv1.RemoveOperatorRequest{Name: "first"}); !strings.Contains(message(err), "first is the caller") {
		t.Errorf("the caller's own removal: %v", err)
	}
	if _, err := a.RotateOperator(ctx, &apiv1.RotateOperatorRequest{Name: "first", Sha256: digestOf(nextToken), Expires: timestamppb.New(a.now().Add(day))}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the rotation of the first token: %v", err)
	}
	if _, err := a.RotateOperator(ctx, &apiv1.RotateOperatorRequest{Name: "ann", Sha256: digestOf(bobToken), Expires: timestamppb.New(a.now().Add(day))}); !strings.HasPrefix(message(err), "sha256: the token is the one of operator bob") {
		t.Errorf("a rotation to another's token: %v", err)
	}
}

// TestCTL13_TheLastAdminStays: ann removes the endless token of the trust file, which no coordinator
// creates again. From then on ann is the only admin, since bob's token was never used.
func TestCTL13_TheLastAdminStays(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleAdmin)
	a.add(t, bobToken, "bob", store.RoleAdmin)
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	byHand, _ := a.named(t, "by-hand", store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, nil))
	if _, err := a.RemoveOperator(as(t.Context(), annToken), &apiv1.RemoveOperatorRequest{Name: "first"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{a.Server, a.onSlot("coordinator-1")} {
		if err := use(t, s, operatorToken); status.Code(err) != codes.PermissionDenied || a.knows(t, operatorToken) {
			t.Errorf("the first token after its removal at %s: %v", s.cfg.Slot, err)
		}
	}
	if _, err := a.RemoveOperator(as(t.Context(), byHand), &apiv1.RemoveOperatorRequest{Name: "ann"}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "last admin") {
		t.Errorf("the removal of the last admin: %v", err)
	}
	if err := use(t, a.Server, bobToken); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RemoveOperator(as(t.Context(), byHand), &apiv1.RemoveOperatorRequest{Name: "ann"}); err != nil {
		t.Errorf("the removal of one admin of two: %v", err)
	}
}

// TestCTL13_AuthorsDoNotApproveTheirOwnRevision: four eyes. An operate token writes a spec and cannot
// approve its revision, over the API and with plain Consul KV. An approve token approves the
// revision and cannot write a spec.
func TestCTL13_AuthorsDoNotApproveTheirOwnRevision(t *testing.T) {
	a, _, _ := newAsked(t)
	a.add(t, annToken, "ann", store.RoleOperate, "pg")
	a.add(t, bobToken, "bob", store.RoleApprove)
	for _, token := range []string{annToken, bobToken} {
		if err := use(t, a.Server, token); err != nil {
			t.Fatal(err)
		}
	}
	author, approver := as(t.Context(), annToken), as(t.Context(), bobToken)
	s := spec(t)
	s.UpdatePolicy.RequireApproval = true
	s.Template.Compose += "    environment:\n      RELEASE: three\n"
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(approver, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an approver applies a spec: %v", err)
	}
	if _, err := a.ApplyGroup(author, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	revision := s.Revision()
	if _, err := a.ApproveRevision(author, &apiv1.ApproveRevisionRequest{Revision: revision}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an author approves over the API: %v", err)
	}
	for _, key := range []string{store.ApprovalKey(revision), store.RequireApprovalKey(), store.GroupPolicyKey("pg"), store.OperatorKey("eve"), store.RevocationKey("revision-" + revision)} {
		pair := &consul.KVPair{Key: store.DefaultPrefix + key, Value: []byte(`{}`)}
		if _, err := a.consul.KV().Put(pair, &consul.WriteOptions{Token: annToken}); !denied(err) {
			t.Errorf("an author writes %s by plain KV: %v", key, err)
		}
		if _, err := a.consul.KV().Delete(pair.Key, &consul.WriteOptions{Token: annToken}); !denied(err) {
			t.Errorf("an author deletes %s by plain KV: %v", key, err)
		}
	}
	if _, err := a.ApproveRevision(approver, &apiv1.ApproveRevisionRequest{Revision: revision}); err != nil {
		t.Errorf("an approver approves: %v", err)
	}
	// The queue, too: the id of a request names the group.
	if out, err := a.RestartInstance(author, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "x", RequestId: "restart-1"}); err != nil || out.GetRequestId() != "pg.restart-1" {
		t.Errorf("an operator of pg restarts pg-0: %v, %v", out, err)
	}
	if _, err := a.RestartInstance(approver, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "x"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an approver restarts an instance: %v", err)
	}
	q := store.QueueRequest{ID: "pg.restart-2", Kind: store.RequestRestart, Slot: "web-0"}
	if err := q.Check(); err == nil || !strings.HasPrefix(err.Error(), "id: ") {
		t.Errorf("a request for another group's slot: %v", err)
	}
}

// interrupted runs a function in place of, or before, the creation of an operator's token.
type interrupted struct {
	Tokens
	before func() error
}

func (i interrupted) EnsureNamed(ctx context.Context, secret string, o tokens.Operator, groups []string) error {
	if err := i.before(); err != nil {
		return err
	}
	return i.Tokens.EnsureNamed(ctx, secret, o, groups)
}

// TestCTL13_ARotationOutlivesItsCoordinator: a coordinator dies during the first use of the next
// token, after it changed the record. Another one continues, and the sweep ends the replaced token.
func TestCTL13_ARotationOutlivesItsCoordinator(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleView)
	if err := use(t, a.Server, annToken); err != nil {
		t.Fatal(err)
	}
	if _, err := a.RotateOperator(as(t.Context(), operatorToken), &apiv1.RotateOperatorRequest{Name: "ann", Sha256: digestOf(nextToken), Expires: timestamppb.New(a.now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	dying := a.onSlot("coordinator-1")
	dying.cfg.Tokens = interrupted{a.cfg.Tokens, func() error { return errors.New("it dies") }}
	if err := use(t, dying, nextToken); status.Code(err) != codes.Unavailable {
		t.Fatalf("the interrupted first use: %v", err)
	}
	a.mu.Lock()
	a.offset = abandoned + time.Second
	a.mu.Unlock()
	if err := use(t, a.Server, nextToken); err != nil {
		t.Fatal(err)
	}
	n, err := a.issuer.StrayOperators(t.Context(), func(ctx context.Context) (map[string]bool, error) {
		r, _, err := store.Read[store.OperatorRecord](ctx, a.cfg.Store, store.OperatorKey("ann"))
		return map[string]bool{r.Accessors()[0]: true}, err
	})
	if err != nil || n != 1 || a.knows(t, annToken) || !a.knows(t, nextToken) {
		t.Errorf("%d stray tokens, %v; the replaced token is there: %v", n, err, a.knows(t, annToken))
	}
}

// TestCTL13_ARemovalDuringTheFirstUseWins: the operator is removed between the check of its record and
// the creation of its token.
func TestCTL13_ARemovalDuringTheFirstUseWins(t *testing.T) {
	a := newAPI(t)
	a.add(t, annToken, "ann", store.RoleView)
	other := a.onSlot("coordinator-1")
	other.cfg.Tokens = interrupted{a.cfg.Tokens, func() error {
		_, err := a.RemoveOperator(as(t.Context(), operatorToken), &apiv1.RemoveOperatorRequest{Name: "ann"})
		return err
	}}
	if err := use(t, other, annToken); status.Code(err) != codes.PermissionDenied || a.knows(t, annToken) {
		t.Errorf("the first use: %v; the token is there: %v", err, a.knows(t, annToken))
	}
}
