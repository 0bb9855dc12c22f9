package policy

import (
	"slices"
	"testing"
)

// TestAllowedRevisionsOfAMovingAndASettledSlot: during a step the old and the new Revision, each once,
// the newest last; then the assigned Revision and the proven one.
func TestAllowedRevisionsOfAMovingAndASettledSlot(t *testing.T) {
	as := func(revision, hash string) AllowedRevision {
		return AllowedRevision{Revision: revision, ComposeHash: hash}
	}
	numbered := as("new", "2")
	numbered.Number, numbered.Approved = 7, true
	sp := func(allowed ...AllowedRevision) SlotPolicy { return SlotPolicy{Allowed: allowed} }
	for name, c := range map[string]struct{ got, want SlotPolicy }{
		"the first":                   {sp().Moving("", as("old", "1")), sp(as("old", "1"))},
		"it stays beside the next":    {sp(as("old", "1")).Moving("old", as("new", "2")), sp(as("old", "1"), as("new", "2"))},
		"what it does not run goes":   {sp(as("older", "0"), as("old", "1")).Moving("old", as("new", "2")), sp(as("old", "1"), as("new", "2"))},
		"once more is once":           {sp(as("old", "1"), numbered).Moving("old", as("new", "2")), sp(as("old", "1"), as("new", "2"))},
		"under another hash is twice": {sp(as("new", "1")).Moving("new", as("new", "2")), sp(as("new", "1"), as("new", "2"))},
		"the oldest of too many goes": {sp(as("a", "1"), as("a", "2"), as("a", "3"), as("a", "4")).Moving("a", as("b", "1")), sp(as("a", "2"), as("a", "3"), as("a", "4"), as("b", "1"))},
		"at rest the old one goes":    {sp(as("old", "1"), as("new", "2")).Settled("new", "new"), sp(as("new", "2"))},
		"what is proven stays":        {sp(as("old", "1"), as("new", "2")).Settled("new", "old"), sp(as("old", "1"), as("new", "2"))},
	} {
		if !slices.Equal(c.got.Allowed, c.want.Allowed) {
			t.Errorf("%s: %v, want %v", name, c.got.Allowed, c.want.Allowed)
		}
	}
}
