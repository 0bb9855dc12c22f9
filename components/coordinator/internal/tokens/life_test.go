package tokens_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
)

func TestTOK02_LivesAreBounded(t *testing.T) {
	for _, ttl := range []time.Duration{0, -time.Minute, time.Second, tokens.TTL + time.Second, 25 * time.Hour} {
		if _, err := tokens.New("127.0.0.1:1", "token", ttl); err == nil || !strings.HasPrefix(err.Error(), "POLICY_INVALID") {
			t.Errorf("%v: %v", ttl, err)
		}
	}
	if tokens.CoordinatorTTL > 15*time.Minute || tokens.TTL > 24*time.Hour {
		t.Errorf("tokens live for %v, those of coordinators for %v", tokens.TTL, tokens.CoordinatorTTL)
	}
}

// endless are the names of the tokens without an end. docs/evidence/threat-model.md lists each as open (S4,
// TOK-02, TOK-06); no other token may have no end.
var endless = []string{
	"Anonymous Token",          // Consul's own, without any right
	"Initial Management Token", // in the memory of coordinators
	tokens.OperatorPolicy,      // the operators' one
}

// TestTOK02_EveryTokenEnds lists Consul's tokens: every token ends in time except the named ones,
// every issued token is marked, and the sweep reports every other endless one.
func TestTOK02_EveryTokenEnds(t *testing.T) {
	w := newWorld(t)
	if err := w.issuer.EnsureOperator(t.Context(), "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11", []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	w.slot(group.WorkloadPatroni, "pg", "pg-0")
	if _, err := w.issuer.Coordinator(t.Context(), "coordinator-0", "b007", false); err != nil {
		t.Fatal(err)
	}
	client := w.as(management)
	all, _, err := client.ACL().TokenList(nil)
	if err != nil {
		t.Fatal(err)
	}
	issued, found := 0, []string{}
	for _, token := range all {
		if token.ExpirationTime == nil {
			found = append(found, token.Description)
			continue
		}
		if time.Until(*token.ExpirationTime) > tokens.TTL {
			t.Errorf("%s ends at %v", token.Description, token.ExpirationTime)
		}
		if !strings.HasPrefix(token.Description, "cadre: ") {
			t.Errorf("a token called %q was issued", token.Description)
		}
		issued++
		if strings.Contains(token.Description, "pg-0") != strings.HasSuffix(token.Description, "SIMULATED") {
			t.Errorf("mark of %q", token.Description)
		}
	}
	if issued != 2 {
		t.Errorf("%d tokens, want 2", issued)
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(endless)); !slices.Equal(found, want) {
		t.Errorf("tokens without an end: %q, want the named ones: %q", found, want)
	}
	made, _, err := client.ACL().TokenCreate(&consul.ACLToken{Description: "by hand"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	swept, err := w.issuer.Sweep(t.Context())
	if err != nil || len(swept.Unbounded) != 1 || swept.Unbounded[0] != made.AccessorID {
		t.Errorf("swept %+v (%v), want the one made by hand", swept, err)
	}
}

// TestTOK12_OrphansAreFoundAndRevoked: a token that no admission names after its time was never
// delivered. Policies that only orphans carried go with them.
func TestTOK12_OrphansAreFoundAndRevoked(t *testing.T) {
	w := newWorld(t)
	kept := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	w.slot(group.WorkloadPatroni, "other", "pg-0") // another spec: another policy of the workload
	lost := w.slot(group.WorkloadPatroni, "pg", "pg-1")
	recorded := func(slot, accessor string) bool {
		return slot == "pg-0" && accessor == kept.Accessor
	}
	owned, err := w.issuer.SlotTokens(t.Context())
	if err != nil || len(owned) != 3 {
		t.Fatalf("tokens %+v (%v), want those of three boots", owned, err)
	}
	if found := tokens.Unrecorded(owned, recorded, time.Now()); len(found) != 0 {
		t.Errorf("too early: %+v", found)
	}
	var accessors []string
	for _, orphan := range tokens.Unrecorded(owned, recorded, time.Now().Add(3*time.Minute)) {
		accessors = append(accessors, orphan.Accessor)
	}
	if len(accessors) != 2 {
		t.Errorf("orphans %v, want two", accessors)
	}
	if swept, err := w.issuer.Sweep(t.Context()); err != nil || swept.Policies != 0 {
		t.Errorf("swept %+v (%v) while tokens carry them all", swept, err)
	}
	if _, _, err := w.as(lost.Secret).ACL().TokenReadSelf(nil); err != nil {
		t.Errorf("the sweep revoked a token: %v", err)
	}
	if err := w.issuer.Revoke(t.Context(), accessors...); err != nil {
		t.Fatal(err)
	}
	if swept, err := w.issuer.Sweep(t.Context()); err != nil || swept.Policies != 1 {
		t.Errorf("swept %+v (%v), want pg-0's policy of before but none of pg-1, which may come back any moment", swept, err)
	}
	if _, _, err := w.as(lost.Secret).ACL().TokenReadSelf(nil); err == nil {
		t.Error("an orphan works")
	}
	if _, _, err := w.as(kept.Secret).ACL().TokenReadSelf(nil); err != nil {
		t.Errorf("a recorded token: %v", err)
	}
	again := w.slot(group.WorkloadPatroni, "pg", "pg-1")
	if ok, err := w.issuer.MayWrite(t.Context(), again.Secret, "service/pg/leader"); err != nil || !ok {
		t.Errorf("a Boot that comes back: %v (%v)", ok, err)
	}
}

// TestPoliciesThatOthersDeletedAreCreatedAgain: a cached policy may be gone, and is created again.
func TestPoliciesThatOthersDeletedAreCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.slot(group.WorkloadPatroni, "pg", "pg-0")
	other, err := tokens.New(w.addr, management, tokens.TTL)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Retire(t.Context(), "pg-0"); err != nil {
		t.Fatal(err)
	}
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-0")
	if ok, err := w.issuer.MayWrite(t.Context(), workload.Secret, "service/pg/leader"); err != nil || !ok {
		t.Errorf("own scope: %v (%v)", ok, err)
	}
}

// TestTOK12_OrphansOfRetiredSlotsAreFound: their policy is gone, and their description names the
// Slot.
func TestTOK12_OrphansOfRetiredSlotsAreFound(t *testing.T) {
	w := newWorld(t)
	workload := w.slot(group.WorkloadPatroni, "pg", "pg-1")
	if _, err := w.issuer.Coordinator(t.Context(), "coordinator-0", "b007", true); err != nil {
		t.Fatal(err)
	}
	if err := w.issuer.Retire(t.Context(), "pg-1"); err != nil { // no record has the accessors
		t.Fatal(err)
	}
	owned, err := w.issuer.SlotTokens(t.Context())
	if err != nil || len(owned) != 1 {
		t.Fatalf("tokens %+v (%v), want the workload's and no coordinator's", owned, err)
	}
	for _, o := range owned {
		if o.Slot != "pg-1" || o.Accessor != workload.Accessor {
			t.Errorf("found %+v", o)
		}
	}
}
