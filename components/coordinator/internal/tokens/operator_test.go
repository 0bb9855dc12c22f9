package tokens_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/store"
)

const (
	annToken = "5c0e7d9a-93b4-4a43-9a55-0a3b1f0a7b21"
	bobToken = "6d1f8e0b-04c5-4b54-8b66-1b4c2a1b8c32"
)

func recorded(accessors ...string) func(context.Context) (map[string]bool, error) {
	return func(context.Context) (map[string]bool, error) {
		out := map[string]bool{}
		for _, a := range accessors {
			out[a] = true
		}
		return out, nil
	}
}

// TestTOK02_OperatorsTokensEnd: a token of an operator has the end of its record, ninety days away,
// and its accessor, by which every coordinator can delete it.
func TestTOK02_OperatorsTokensEnd(t *testing.T) {
	w := newWorld(t)
	ann := tokens.Operator{Name: "ann", Accessor: store.OperatorAccessor(strings.Repeat("0d", 32)), Role: store.RoleOperate, Expires: time.Now().Add(90 * 24 * time.Hour).UTC().Truncate(time.Second)}
	for range 2 {
		if err := w.issuer.EnsureNamed(t.Context(), annToken, ann, []string{"pg"}); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := w.as(annToken).ACL().TokenReadSelf(nil)
	if err != nil || got.AccessorID != ann.Accessor || got.ExpirationTime == nil || !got.ExpirationTime.Equal(ann.Expires) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := w.issuer.CheckOperator(t.Context(), annToken); err != nil {
		t.Errorf("it is no operator's: %v", err)
	}
	if who, err := w.issuer.NameOf(t.Context(), annToken); err != nil || who != "operator ann ("+ann.Accessor+")" {
		t.Errorf("its name is %q, %v", who, err)
	}
	if swept, err := w.issuer.Sweep(t.Context()); err != nil || len(swept.Unbounded) != 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if n, err := w.issuer.StrayOperators(t.Context(), recorded(ann.Accessor)); n != 0 || err != nil {
		t.Errorf("%d stray tokens, %v", n, err)
	}
	if n, err := w.issuer.StrayOperators(t.Context(), recorded()); n != 1 || err != nil {
		t.Errorf("%d stray tokens without a record, %v", n, err)
	}
	if err := w.issuer.CheckOperator(t.Context(), annToken); !errors.Is(err, tokens.ErrDenied) {
		t.Errorf("a stray token still works: %v", err)
	}
}

// TestANewGroupIsAddedToTheRolesOfAllGroups: an admin adds a group. Operators of all groups may then
// write its spec. Operators of single groups get no right to it, also when its name begins with
// theirs.
func TestANewGroupIsAddedToTheRolesOfAllGroups(t *testing.T) {
	w := newWorld(t)
	const first = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"
	if err := w.issuer.EnsureOperator(t.Context(), first, []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Hour)
	for token, o := range map[string]tokens.Operator{
		annToken: {Name: "ann", Accessor: store.OperatorAccessor("a"), Role: store.RoleOperate, Expires: end},
		bobToken: {Name: "bob", Accessor: store.OperatorAccessor("b"), Role: store.RoleOperate, Groups: []string{"pg"}, Expires: end},
	} {
		if err := w.issuer.EnsureNamed(t.Context(), token, o, []string{"pg"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.issuer.AllowGroup(t.Context(), bobToken, "pg-b", nil); !errors.Is(err, tokens.ErrDenied) {
		t.Errorf("an operator of pg adds a group: %v", err)
	}
	if err := w.issuer.AllowGroup(t.Context(), first, "pg-b", []string{"pg"}); err != nil {
		t.Fatal(err)
	}
	for key, may := range map[string][3]bool{
		store.GroupSpecKey("pg"):                         {true, true, true},
		store.GroupSpecKey("pg-b"):                       {true, true, false},
		store.OverrideKey(store.OverrideDrain, "pg-0"):   {true, true, true},
		store.OverrideKey(store.OverrideDrain, "pg-b-0"): {true, true, false},
		store.ApprovalKey("abc"):                         {true, false, false},
	} {
		for n, token := range []string{first, annToken, bobToken} {
			if got, err := w.issuer.MayWrite(t.Context(), token, store.DefaultPrefix+key); err != nil || got != may[n] {
				t.Errorf("token %d may write %s: %v, %v; want %v", n, key, got, err, may[n])
			}
		}
	}
	if has, err := w.issuer.HasFirst(t.Context()); err != nil || !has {
		t.Errorf("the first token is there: %v, %v", has, err)
	}
	if err := w.issuer.EndFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has, err := w.issuer.HasFirst(t.Context()); err != nil || has {
		t.Errorf("the first token is there after its end: %v, %v", has, err)
	}
}
