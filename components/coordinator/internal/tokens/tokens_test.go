package tokens_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/store/storetest"
)

const management = "5c1e6f0a-7d2b-4c94-9a53-1f6a0d6f3b11"

type world struct {
	t      *testing.T
	addr   string
	server storetest.ConsulServer
	issuer *tokens.Issuer
	// management is the management token.
	management string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := storetest.StartConsulACL(t)
	issuer, err := tokens.New(server.Addr, server.ManagementToken, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, addr: server.Addr, server: server, issuer: issuer, management: server.ManagementToken}
}

func (w *world) as(token string) *consul.Client {
	w.t.Helper()
	c, err := consul.NewClient(&consul.Config{Address: w.addr, Token: token})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// slot issues the token of a Boot.
func (w *world) slot(kind, groupName, slot string) tokens.Token {
	w.t.Helper()
	token, err := w.issuer.Slot(w.t.Context(), tokens.Holder{
		Spec: group.Spec{Name: groupName, Workload: group.Workload{Kind: kind}}, Slot: slot, BootID: "b007", Simulated: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// TestTOK05_IDN09_SlotTokensReachNothingElse: a name that begins like the own name is foreign
// (TOK-05), and so is every session except the own node's.
func TestTOK05_IDN09_SlotTokensReachNothingElse(t *testing.T) {
	w := newWorld(t)
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-1")
	for key, want := range map[string]bool{
		"service/pg/leader": true, "service/pg2/leader": false, "service/pg": false, "service/pg-old/leader": false,
		"cadre/v1/groups/pg/spec": false, "cadre/v1/control/pause/pg": false, "other": false,
	} {
		if got, err := w.issuer.MayWrite(t.Context(), workload.Secret, key); err != nil || got != want {
			t.Errorf("write %s: %v (%v), want %v", key, got, err, want)
		}
	}
	for node, own := range map[string]bool{"pg-1": true, "pg-10": false, "pg-0": false, "coordinator-0": false} {
		if _, err := w.as(workload.Secret).Catalog().Register(&consul.CatalogRegistration{Node: node, Address: "127.50.1.9"}, nil); err == nil {
			t.Errorf("a member registers node %s", node)
		}
		_, _, err := w.as(workload.Secret).Session().CreateNoChecks(&consul.SessionEntry{Node: node}, nil)
		if !own && err == nil {
			t.Errorf("workload token makes a session of %s", node)
		}
	}
	if _, _, err := w.as(workload.Secret).ACL().TokenList(nil); err == nil {
		t.Error("workload token lists tokens")
	}
}

func TestRetireTakesEverythingBack(t *testing.T) {
	w := newWorld(t)
	workload := w.slot("", "pg", "pg-1")
	for range 2 { // a crash may repeat it
		if err := w.issuer.Retire(t.Context(), "pg-1", workload.Accessor); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.as(workload.Secret).ACL().TokenReadSelf(nil); err == nil {
		t.Error("a token of a slot that is gone works")
	}
	w.slot("", "pg", "pg-1") // the slot comes back
}

// TestGroupsThatAreMadeAtOnceAllGetTheirRule: concurrent callers at one coordinator, and a caller
// at another that does not know of them.
func TestGroupsThatAreMadeAtOnceAllGetTheirRule(t *testing.T) {
	w := newWorld(t)
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), operator, nil); err != nil {
		t.Fatal(err)
	}
	const groups = 12
	var making sync.WaitGroup
	for n := range groups {
		making.Go(func() {
			if err := w.issuer.AllowGroup(t.Context(), operator, fmt.Sprint("g", n), nil); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	other, err := tokens.New(w.addr, w.management, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.AllowGroup(t.Context(), operator, "last", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"last", "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8", "g9", "g10", "g11"} {
		if ok, err := w.issuer.MayWrite(t.Context(), operator, "cadre/v1/groups/"+name+"/spec"); err != nil || !ok {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func TestOperatorWritesSpecsAndSwitchesOnly(t *testing.T) {
	w := newWorld(t)
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	for range 2 {
		if err := w.issuer.EnsureOperator(t.Context(), operator, []string{"pg"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.issuer.AllowGroup(t.Context(), operator, "web", []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"cadre/v1/groups/pg/spec": true, "cadre/v1/groups/web/spec": true, "cadre/v1/control/freeze/_all": true,
		"cadre/v1/groups/other/spec": false, "cadre/v1/groups/pg/accepted": false, "cadre/v1/applied/pg": false, "cadre/v1/groups/pg/status": false,
		"cadre/v1/policy/slots/pg-0": false, "cadre/v1/admissions/pg-0": false, "cadre/v1/lease/term": false, "service/pg/leader": false,
	} {
		if got, err := w.issuer.MayWrite(t.Context(), operator, key); err != nil || got != want {
			t.Errorf("write %s: %v (%v), want %v", key, got, err, want)
		}
	}
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	for _, stranger := range []string{workload.Secret, "11111111-2222-3333-4444-555555555555"} {
		if err := w.issuer.AllowGroup(t.Context(), stranger, "mine", nil); !errors.Is(err, tokens.ErrDenied) {
			t.Errorf("a stranger makes a group: %v", err)
		}
	}
}
