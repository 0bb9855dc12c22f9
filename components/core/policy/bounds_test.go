package policy

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// TestATT20_AMeasurementIsComplete or the policy is none: each register, all its digits.
func TestATT20_AMeasurementIsComplete(t *testing.T) {
	full := Measurement{MRTD: digits("0", 96), RTMR0: digits("9", 96), RTMR1: digits("a", 96), RTMR2: digits("f", 96)}
	if !full.complete() {
		t.Error("all four are there, in every digit")
	}
	for name, edit := range map[string]func(*Measurement){
		"mrtd": func(m *Measurement) { m.MRTD = "" }, "rtmr0": func(m *Measurement) { m.RTMR0 = "" },
		"rtmr1": func(m *Measurement) { m.RTMR1 = "" }, "rtmr2": func(m *Measurement) { m.RTMR2 = "" },
		"short": func(m *Measurement) { m.MRTD = digits("0", 95) }, "long": func(m *Measurement) { m.MRTD = digits("0", 97) },
		"capitals": func(m *Measurement) { m.MRTD = digits("A", 96) }, "below 0": func(m *Measurement) { m.MRTD = digits("/", 96) },
		"above 9": func(m *Measurement) { m.MRTD = digits(":", 96) }, "below a": func(m *Measurement) { m.MRTD = digits("`", 96) },
		"above f": func(m *Measurement) { m.MRTD = digits("g", 96) },
	} {
		m := full
		edit(&m)
		if m.complete() {
			t.Errorf("%s: it is complete", name)
		}
	}
	ip := admissible().ip
	if err := ip.Validate(); err != nil {
		t.Error(err)
	}
	ip.Images = maps.Clone(ip.Images)
	ip.Images[""] = ip.Images["dstack-0.5.7"]
	if err := ip.Validate(); err == nil || !strings.Contains(err.Error(), "without a name") {
		t.Errorf("an image without a name: %v", err)
	}
}

// TestARecordCarriesSoManyRevocations, the newest ones.
func TestARecordCarriesSoManyRevocations(t *testing.T) {
	for n, want := range map[int]int{0: 0, maxRevoked: maxRevoked, maxRevoked + 1: maxRevoked} {
		var sp SlotPolicy
		for i := range n {
			sp.Revoked = append(sp.Revoked, Revocation{Kind: RevokedKeyProvider, ID: fmt.Sprint(i)})
		}
		if got := sp.Bounded().Revoked; len(got) != want || want > 0 && got[0].ID != "0" {
			t.Errorf("of %d: %d", n, len(got))
		}
	}
}

// TestADocumentThatIsNoneIsNotRead.
func TestADocumentThatIsNoneIsNotRead(t *testing.T) {
	good, err := NewDocument("pg", "r1", []byte(`{"a":"b"}`), time.Unix(1, 0), 3)
	if err != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string][]byte{"nothing": nil, "no archive": []byte("{}"), "half of one": good.Gzip[:len(good.Gzip)-9]} {
		d := good
		d.Gzip = packed
		if text, err := d.Text(); err == nil || !strings.Contains(err.Error(), "unpack app-compose.json") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestATT15_AnApprovalNamesARevision: a named Revision, as the reviewed hash.
func TestATT15_AnApprovalNamesARevision(t *testing.T) {
	hash := digits("d", 64)
	gp := GroupPolicy{Approvals: map[string]Approval{"": {ComposeHash: hash}, "r1": {ComposeHash: hash}, "r2": {ComposeHash: "short"}}}
	for name, c := range map[string]struct {
		revision, hash string
		want           bool
	}{
		"as its hash": {"r1", hash, true}, "in capitals": {"R1", strings.ToUpper(hash), true}, "before a hash is known": {"r1", "", true},
		"as another": {"r1", digits("e", 64), false}, "without a name": {"", hash, false}, "not approved": {"r3", hash, false},
		"as no hash": {"r2", "", false}, "as no hash, twice": {"r2", "short", false},
	} {
		if got := gp.Approved(c.revision, c.hash); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFoldKeepsItsInput: a record that others may read is not changed in place.
func TestFoldKeepsItsInput(t *testing.T) {
	gp := history(GroupPolicy{}, Asked{}, known(1))
	before := maps.Clone(gp.Revisions)
	if next := history(gp, Asked{}, known(2)); len(next.Revisions) != 2 || !maps.Equal(gp.Revisions, before) {
		t.Errorf("%d revisions, and the record before has %d", len(next.Revisions), len(gp.Revisions))
	}
	// A floor of no number asks for nothing.
	if _, problems := gp.Fold(Asked{Group: "db", Target: known(1), Floor: &Floor{}}, noon); len(problems) != 0 {
		t.Errorf("problems %+v", problems)
	}
	// An approval without effect never replaces an effective one, nor the reverse.
	hash := digits("d", 64)
	one := known(1)
	one.ComposeHash = hash
	for _, list := range [][]Approval{{{Revision: rev(1)}, {Revision: rev(1), ComposeHash: hash}}, {{Revision: rev(1), ComposeHash: hash}, {Revision: rev(1)}}} {
		next, problems := gp.Fold(Asked{Group: "db", RequireApproval: true, Target: one, Approvals: list}, noon)
		if !next.Approved(rev(1), hash) || len(problems) != 1 || problems[0].Reason != ProblemApprovalUnbound {
			t.Errorf("approvals %+v, problems %+v", next.Approvals, problems)
		}
	}
	next, _ := gp.Fold(Asked{Group: "db", RequireApproval: true, Target: one, Approvals: []Approval{{Revision: rev(1), By: "ann"}}}, noon)
	if next.Approvals[rev(1)].By != "ann" || next.Approved(rev(1), "") {
		t.Errorf("one that binds nothing is shown, and counts for nothing: %+v", next.Approvals)
	}
}
