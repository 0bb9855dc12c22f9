package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

func TestSecretsAreListedAndRotatedWithTheRightToWrite(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	list, err := a.ListSecrets(ctx, &apiv1.ListSecretsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list.GetSecrets() {
		got = append(got, s.GetGroup()+"/"+s.GetName())
	}
	if fmt.Sprint(got) != "[cluster/gossip pg/replication pg/rewind pg/superuser]" {
		t.Errorf("secrets = %v", got)
	}
	for _, req := range []*apiv1.RotateSecretRequest{{Group: "pg", Name: "superuser", Reason: "a leak"}, {Group: "cluster", Name: "gossip"}, {Group: "pg", Name: "superuser", Reason: "again"}} {
		if _, err := a.RotateSecret(ctx, req); err != nil {
			t.Errorf("rotate %s/%s: %v", req.GetGroup(), req.GetName(), err)
		}
	}
	request, _, err := store.Read[store.RotateRequest](t.Context(), a.cfg.Store, store.RotateKey("pg", "superuser"))
	if err != nil || request.Reason != "a leak" || !strings.HasPrefix(request.By, "cadre-operator (") {
		t.Errorf("request = %+v, %v; want the first one", request, err)
	}
	if list, err = a.ListSecrets(ctx, &apiv1.ListSecretsRequest{Group: "pg"}); err != nil || len(list.GetSecrets()) != 3 || !list.GetSecrets()[2].GetRequested() {
		t.Errorf("secrets of pg = %v, %v", list, err)
	}
	for _, req := range []*apiv1.RotateSecretRequest{{Group: "pg", Name: "nothing"}, {Group: "none", Name: "superuser"}, {Group: "cluster", Name: "ca"}} {
		if _, err := a.RotateSecret(ctx, req); status.Code(err) != codes.NotFound {
			t.Errorf("rotate %s/%s: %v, want NotFound", req.GetGroup(), req.GetName(), err)
		}
	}
	workload := as(t.Context(), a.workload)
	for _, req := range []*apiv1.RotateSecretRequest{{Group: "pg", Name: "superuser"}, {Group: "cluster", Name: "gossip"}} {
		if _, err := a.RotateSecret(workload, req); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a workload's token rotates %s/%s: %v", req.GetGroup(), req.GetName(), err)
		}
	}
	if _, err := a.ListSecrets(workload, &apiv1.ListSecretsRequest{Group: "cluster"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a workload's token lists the cluster's keys: %v", err)
	}
	if _, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "pg", Name: "superuser", Reason: strings.Repeat("x", maxReason+1)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a reason without bound: %v", err)
	}
}

// OPS-07, TOK-06: a secret in a spec is rejected before it is stored, and the error does not repeat
// it.
func TestTOK06_OPS07_TOK08_SecretInSpecIsRefusedBeforeItIsStored(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	s := spec(t)
	s.Template.Env = map[string]string{"CONSUL_HTTP_TOKEN": "b1gs05f0-management"}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: s.Name, SpecJson: raw})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "SECRET_IN_SPEC: ") || strings.Contains(err.Error(), "b1gs05f0") {
		t.Errorf("apply = %v", err)
	}
	if _, err := a.cfg.Store.Get(t.Context(), store.GroupSpecKey(s.Name)); err == nil {
		t.Error("it was stored")
	}
}

// TOK-11: a snapshot holds every token, so only the management token may take one.
func TestTOK11_SnapshotsAreDenied(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	if _, err := a.ListGroups(ctx, &apiv1.ListGroupsRequest{}); err != nil { // creates the operator's token
		t.Fatal(err)
	}
	for who, token := range map[string]string{"an operator": operatorToken, "a workload": a.workload, "a stranger": "11111111-2222-3333-4444-555555555555"} {
		if _, _, err := a.consul.Snapshot().Save(&consul.QueryOptions{Token: token, RequireConsistent: true}); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("%s takes a snapshot: %v", who, err)
		}
	}
}

// acceptsLate is the store of a leader that accepts a spec when a caller looks for it again.
type acceptsLate struct {
	store.Store
	accept func()
}

func (a acceptsLate) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	if slices.Contains(what, store.GroupsPrefix+store.Below) {
		a.accept()
	}
	return a.Store.Together(ctx, what...)
}

// TestASecretIsRotatedRightAfterItsDeclaration: the call waits for the leader, as that for the value
// of an operator's secret does.
func TestASecretIsRotatedRightAfterItsDeclaration(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	declares := spec(t)
	declares.Secrets = append(declares.Secrets, group.Secret{Name: "session-key"})
	next, err := json.Marshal(declares)
	if err != nil {
		t.Fatal(err)
	}
	accept := func(raw []byte) uint64 {
		out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetIndex()
	}
	put(a, t, store.GroupAcceptedKey("pg"), store.AcceptedSpec{Group: "pg", SpecIndex: accept(specJSON(t)), Spec: specJSON(t), By: "ann", Term: 1, At: a.now()})
	index, before := accept(next), a.cfg.Store
	a.cfg.Store = acceptsLate{Store: before, accept: func() {
		accepted, _, err := store.Read[store.AcceptedSpec](t.Context(), before, store.GroupAcceptedKey("pg"))
		if err != nil || accepted.SpecIndex == index {
			return
		}
		put(a, t, store.GroupAcceptedKey("pg"), store.AcceptedSpec{Group: "pg", SpecIndex: index, Spec: next, By: "ann", Term: 1, At: a.now()})
	}}
	if _, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "pg", Name: "session-key"}); err != nil {
		t.Error(err)
	}
	if _, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "pg", Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("a secret that no spec declares: %v", err)
	}
}
