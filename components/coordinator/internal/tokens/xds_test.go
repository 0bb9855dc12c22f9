package tokens_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/core/group"
)

func (w *world) streams(groupName, coordinator string, services ...string) tokens.Token {
	w.t.Helper()
	token, err := w.issuer.XDS(w.t.Context(), tokens.Streams{Group: groupName, Services: services, Coordinator: coordinator, BootID: "b007", Simulated: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// TestTOK05_TokensOfStreamsHaveTheirServicesAlone: they end, and count neither as a Slot's nor as
// an operator's, so the Consul proxy and the audit ignore them.
func TestTOK05_TokensOfStreamsHaveTheirServicesAlone(t *testing.T) {
	w := newWorld(t)
	token := w.streams("pg", "coordinator-1", "pg-api", "pg", "pg")
	have, _, err := w.as(management).ACL().TokenRead(token.Accessor, nil)
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, s := range have.ServiceIdentities {
		services = append(services, s.ServiceName)
	}
	slices.Sort(services)
	if !slices.Equal(services, []string{"pg", "pg-api"}) || len(have.Policies)+len(have.Roles)+len(have.NodeIdentities)+len(have.TemplatedPolicies) != 0 {
		t.Errorf("rights: %+v", have)
	}
	if have.ExpirationTime == nil || time.Until(*have.ExpirationTime) > tokens.XDSTTL || !strings.HasSuffix(have.Description, "SIMULATED") {
		t.Errorf("it ends at %v, %q", have.ExpirationTime, have.Description)
	}
	if owner, err := w.issuer.Owner(t.Context(), token.Secret); err != nil || owner != "" {
		t.Errorf("owner %q, %v", owner, err)
	}
	if err := w.issuer.CheckOperator(t.Context(), token.Secret); !errors.Is(err, tokens.ErrDenied) {
		t.Errorf("as an operator's: %v", err)
	}
	if owned, err := w.issuer.SlotTokens(t.Context()); err != nil || len(owned) != 0 {
		t.Errorf("tokens of Slots: %+v, %v", owned, err)
	}
	if swept, err := w.issuer.Sweep(t.Context()); err != nil || swept.Policies != 0 || len(swept.Unbounded) != 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
	if _, _, err := w.as(token.Secret).ACL().TokenReadSelf(nil); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if _, err := w.issuer.XDS(t.Context(), tokens.Streams{Group: "pg", Coordinator: "coordinator-1", BootID: "b007"}); err == nil {
		t.Error("a token for no service")
	}
}

// TestTOK12_TokensOfStreamsAreFoundByTheirCoordinator: it finds its own tokens, including those of
// an earlier Boot, and no others.
func TestTOK12_TokensOfStreamsAreFoundByTheirCoordinator(t *testing.T) {
	w := newWorld(t)
	kept, left := w.streams("pg", "coordinator-1", "pg"), w.streams("web", "coordinator-1", "web")
	w.streams("pg", "coordinator-10", "pg")
	w.slot(group.WorkloadPatroni, "pg", "pg-0")
	owned, err := w.issuer.XDSTokens(t.Context(), "coordinator-1")
	if err != nil || len(owned) != 2 {
		t.Fatalf("tokens %+v, %v; want two", owned, err)
	}
	recorded := func(_, accessor string) bool { return accessor == kept.Accessor }
	if now := tokens.Unrecorded(owned, recorded, time.Now()); len(now) != 0 {
		t.Errorf("too early: %+v", now)
	}
	found := tokens.Unrecorded(owned, recorded, time.Now().Add(3*time.Minute))
	if len(found) != 1 || found[0].Accessor != left.Accessor {
		t.Errorf("left behind: %+v, want %s", found, left.Accessor)
	}
}
