package tokens_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// example returns a key of one row of the table of records.
func example(pattern string) string {
	return "cadre/v1/" + strings.NewReplacer("<group>", "pg", "<slot>", "pg-0", "<id>", "x", "<digest>", "0d", "<revision>", "0d",
		"<revocation>", "instance-0d", "<scope>", "pg", "<nonce>", "00112233445566778899aabbccddeeff", "<sha256>", strings.Repeat("0d", 32)).Replace(pattern)
}

// TestCTL08_NoRoleEditsForeignRecords: the real token of every role tries to write and to delete
// every kind of record.
func TestCTL08_NoRoleEditsForeignRecords(t *testing.T) {
	w := newWorld(t)
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), operator, []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	coordinator, err := w.issuer.Coordinator(t.Context(), "coordinator-0", "b007", true)
	if err != nil {
		t.Fatal(err)
	}
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	management := w.as(w.management)
	// Each role has its own client, because the server bounds the connections of a client.
	roles := map[string]*consul.KV{}
	for role, token := range map[string]string{
		"operator": operator, "coordinator's agent": coordinator.Secret, "workload": workload.Secret, "anybody": "",
	} {
		roles[role] = w.as(token).KV()
	}
	denied := func(err error) bool { return err != nil && strings.Contains(err.Error(), "Permission denied") }
	operators := 0
	for _, kind := range store.Records {
		key := example(kind.Pattern)
		if _, err := management.KV().Put(&consul.KVPair{Key: key, Value: []byte("as the leader left it")}, nil); err != nil {
			t.Fatal(err)
		}
		if kind.Writer == store.Operator {
			operators++
		}
		for role, kv := range roles {
			may := role == "operator" && kind.Writer == store.Operator
			_, put := kv.Put(&consul.KVPair{Key: key, Value: []byte("edited")}, nil)
			if may && put != nil || !may && !denied(put) {
				t.Errorf("%s writes %s: %v", role, key, put)
			}
			if may {
				continue
			}
			if _, err := kv.Delete(key, nil); !denied(err) {
				t.Errorf("%s deletes %s: %v", role, key, err)
			}
			tree := "cadre/v1/" + strings.SplitN(kind.Pattern, "<", 2)[0]
			ok, answer, _, err := kv.Txn(consul.KVTxnOps{{Verb: consul.KVDeleteTree, Key: tree}}, nil)
			if err != nil || ok || len(answer.Errors) == 0 || !strings.Contains(answer.Errors[0].What, "Permission denied") {
				t.Errorf("%s deletes %s in a transaction: %v, %+v, %v", role, tree, ok, answer, err)
			}
		}
		pair, _, err := management.KV().Get(key, nil)
		if err != nil || pair == nil || (string(pair.Value) == "edited") != (kind.Writer == store.Operator) {
			t.Errorf("%s reads %v, %v", key, pair, err)
		}
	}
	if operators < 8 {
		t.Errorf("only %d kinds of records are operators'", operators)
	}
}

func TestCTL20_TokensOfSlotsAreFoundForEveryCreator(t *testing.T) {
	w := newWorld(t)
	workload := w.slot("", "pg", "pg-1")
	management := w.as(w.management)
	real, _, err := management.ACL().TokenRead(workload.Accessor, nil)
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := management.ACL().TokenCreate(&consul.ACLToken{Description: "nothing to see", Policies: real.Policies}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := management.Catalog().Register(&consul.CatalogRegistration{Node: "rogue", Address: "127.50.1.99"}, nil); err != nil {
		t.Fatal(err)
	}
	owned, err := w.issuer.SlotTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var accessors []string
	for _, o := range owned {
		if o.Slot != "pg-1" || o.CreatedAt.IsZero() {
			t.Errorf("%+v", o)
		}
		accessors = append(accessors, o.Accessor)
	}
	want := []string{workload.Accessor, forged.AccessorID}
	slices.Sort(want)
	if slices.Sort(accessors); !slices.Equal(accessors, want) {
		t.Errorf("tokens %v, want %v", accessors, want)
	}
	nodes, err := w.issuer.Nodes(t.Context())
	if rogue := nodes["rogue"]; err != nil || !rogue.Listed || rogue.Alive || len(rogue.IDs) != 0 || len(nodes) != 2 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	for name, n := range nodes {
		if name != "rogue" && (!n.Alive || len(n.IDs) != 1 || n.Address != "127.0.0.1") {
			t.Errorf("the server itself is not alive: %v", nodes)
		}
	}
}

func TestNameOfContainsNoSecret(t *testing.T) {
	w := newWorld(t)
	const operator = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), operator, nil); err != nil {
		t.Fatal(err)
	}
	who, err := w.issuer.NameOf(t.Context(), operator)
	if err != nil || !strings.HasPrefix(who, tokens.OperatorPolicy+" (") || strings.Contains(who, operator) {
		t.Errorf("%q, %v", who, err)
	}
	if who, err := w.issuer.NameOf(t.Context(), "11111111-2222-3333-4444-555555555555"); !errors.Is(err, tokens.ErrDenied) {
		t.Errorf("a stranger is %q, %v", who, err)
	}
}

// TestINP04_OnlyOperatorsTokensCountAsSuch: Slots' tokens, revoked ones and Consul's anonymous one
// do not count as operators'.
func TestINP04_OnlyOperatorsTokensCountAsSuch(t *testing.T) {
	w := newWorld(t)
	workload := w.slot("", "pg", "pg-1")
	management := w.as(w.management)
	made := func(token *consul.ACLToken) string {
		out, _, err := management.ACL().TokenCreate(token, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.SecretID
	}
	real, _, err := management.ACL().TokenRead(workload.Accessor, nil)
	if err != nil {
		t.Fatal(err)
	}
	person, revoked := made(&consul.ACLToken{Description: "by hand"}), made(&consul.ACLToken{Description: "by hand"})
	old, _, err := management.ACL().TokenReadSelf(&consul.QueryOptions{Token: revoked})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := management.ACL().TokenDelete(old.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"an operator":      {person, nil},
		"management":       {w.management, nil},
		"an earlier agent": {made(&consul.ACLToken{Description: "cadre: agent of pg-1, boot b007"}), tokens.ErrDenied},
		"a workload":       {workload.Secret, tokens.ErrDenied},
		"a copied policy":  {made(&consul.ACLToken{Description: "nothing to see", Policies: real.Policies}), tokens.ErrDenied},
		"a revoked one":    {revoked, tokens.ErrDenied},
		"nobody's":         {"anonymous", tokens.ErrDenied},
		"an invented one":  {"11111111-2222-3333-4444-555555555555", tokens.ErrDenied},
	} {
		if err := w.issuer.CheckOperator(t.Context(), c.token); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
