package policy

import (
	"strings"
	"testing"
	"time"
)

// TestCTL21_CutSwappedAndBackDatedDecisionsShow: the head of the chain reveals a cut end, a changed
// order and an earlier date.
func TestCTL21_CutSwappedAndBackDatedDecisionsShow(t *testing.T) {
	for name, edit := range map[string]func(*Decisions){
		"end cut":         func(d *Decisions) { d.Entries = d.Entries[:3] },
		"swapped":         func(d *Decisions) { d.Entries[1], d.Entries[2] = d.Entries[2], d.Entries[1] },
		"back-dated":      func(d *Decisions) { d.Entries[2].At = d.Entries[2].At.Add(-time.Hour) },
		"last back-dated": func(d *Decisions) { d.Entries[4].At = d.Entries[4].At.Add(-time.Hour) },
		"of another slot": func(d *Decisions) { d.Slot = "db-2" },
		"forked":          func(d *Decisions) { *d = Decisions{Slot: d.Slot, Entries: d.Entries, Head: chain(4).Head} },
	} {
		d := chain(5)
		edit(&d)
		if err := d.Verify(); err == nil || !strings.HasPrefix(err.Error(), string(CodeAuditChainBroken)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
