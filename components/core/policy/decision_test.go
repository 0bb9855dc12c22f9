package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func chain(n int) Decisions {
	var d Decisions
	for i := range n {
		d = d.Append("db-1", DecisionEntry{At: time.Unix(int64(i), 0).UTC(), What: DecidedAdmit, BootID: fmt.Sprint("boot", i), By: "coordinator-0", Generation: uint64(i + 1)})
	}
	return d
}

func TestCTL10_DecisionsAreAChain(t *testing.T) {
	if err := (Decisions{}).Verify(); err != nil {
		t.Error(err)
	}
	for _, n := range []int{1, 2, MaxDecisions, 3 * MaxDecisions} {
		d := chain(n)
		if err := d.Verify(); err != nil || len(d.Entries) != min(n, MaxDecisions) || d.Last().Number != uint64(n) {
			t.Errorf("%d: %d entries, last %d, %v", n, len(d.Entries), d.Last().Number, err)
		}
	}
}

// TestCTL10_DecisionsShowEveryEdit: each field of each entry, and each removal.
func TestCTL10_DecisionsShowEveryEdit(t *testing.T) {
	for i := range 5 {
		fields := reflect.TypeFor[DecisionEntry]().NumField()
		for f := range fields {
			d := chain(5)
			v := reflect.ValueOf(&d.Entries[i]).Elem().Field(f)
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "x")
			case reflect.Uint64:
				v.SetUint(v.Uint() + 1)
			default:
				d.Entries[i].At = d.Entries[i].At.Add(time.Nanosecond)
			}
			if err := d.Verify(); err == nil || !strings.HasPrefix(err.Error(), string(CodeAuditChainBroken)) {
				t.Errorf("entry %d, field %s edited: %v", i, reflect.TypeFor[DecisionEntry]().Field(f).Name, err)
			}
		}
		if i == 0 {
			continue // the oldest are dropped in time
		}
		d := chain(5)
		d.Entries = append(d.Entries[:i:i], d.Entries[i+1:]...)
		if d.Verify() == nil {
			t.Errorf("entry %d removed: not seen", i)
		}
	}
	d := chain(3)
	d.Entries = nil
	if d.Verify() == nil {
		t.Error("all removed: not seen")
	}
}

func TestDecisionsCountRepetitions(t *testing.T) {
	d := chain(2)
	for range 100 {
		d = d.Append("db-1", DecisionEntry{What: DecidedConflict, Code: CodeInstanceConflict, BootID: "clone", HolderBootID: "boot1", By: "coordinator-1", Message: strings.Repeat("é", maxDecisionText)})
	}
	if last := d.Last(); len(d.All()) != 3 || last.Times != 100 || last.Number != 3 || len(last.Message) > maxDecisionText+3 {
		t.Errorf("%d entries, last %+v", len(d.All()), last)
	}
	if err := d.Verify(); err != nil {
		t.Error(err)
	}
	// Other decisions came in between: only the newest entry counts repetitions.
	d = d.Append("db-1", DecisionEntry{What: DecidedAdmit, BootID: "boot1", Generation: 2})
	d = d.Append("db-1", DecisionEntry{What: DecidedConflict, Code: CodeInstanceConflict, BootID: "clone", HolderBootID: "boot1"})
	if last := d.Last(); last.What != DecidedConflict || last.Times != 101 || last.Number != 5 || len(d.Entries) != 2 || d.Verify() != nil {
		t.Errorf("%d admissions, last %+v, %v", len(d.Entries), last, d.Verify())
	}
}

// TestIDN04_EvictionsOutliveAFloodOfRefusals: a clone that asks again and again, under a
// new key each time, must not make the cluster forget whom it evicted or replaced.
func TestIDN04_EvictionsOutliveAFloodOfRefusals(t *testing.T) {
	d := Decisions{}.Append("db-1", DecisionEntry{What: DecidedAdmit, BootID: "replaced", Generation: 1})
	d = d.Append("db-1", DecisionEntry{What: DecidedAdmit, BootID: "evicted", Generation: 2})
	d = d.Append("db-1", DecisionEntry{What: DecidedEvict, Code: CodePeerRevoked, BootID: "evicted", Generation: 2})
	holder := DecisionEntry{What: DecidedAdmit, BootID: "holder", Generation: 3}
	d = d.Append("db-1", holder)
	for i := range 10 * MaxDecisions {
		clone := DecisionEntry{What: DecidedConflict, Code: CodeInstanceConflict, BootID: fmt.Sprint("clone", i), HolderBootID: "holder"}
		if i%3 == 1 {
			clone.What, clone.Code = DecidedRefuse, CodeRevisionNotAllowed
		}
		if i%3 == 2 { // the holder attests meanwhile
			clone = holder
		}
		d = d.Append("db-1", clone)
	}
	if err := d.Verify(); err != nil || len(d.Refused) != MaxRefused || len(d.Entries) != 4 {
		t.Fatalf("%d turns, %d refusals, %v", len(d.Entries), len(d.Refused), err)
	}
	for boot, want := range map[string]bool{"replaced": true, "evicted": true, "holder": true, "clone0": false, d.Refused[0].BootID: false} {
		if d.Had(boot) != want {
			t.Errorf("%s had the slot: %t", boot, !want)
		}
	}
	if e, ok := d.Evicted("evicted"); !ok || e.Code != CodePeerRevoked {
		t.Errorf("why the boot was evicted: %+v", e)
	}
	if _, ok := d.Evicted("replaced"); ok {
		t.Error("the replaced boot was not evicted")
	}
	all := d.All()
	for i := range all[1:] {
		if all[i+1].Number <= all[i].Number {
			t.Errorf("entry %d after %d", all[i+1].Number, all[i].Number)
		}
	}
	if all[len(all)-1] != d.Last() {
		t.Errorf("the last one is %+v, not %+v", d.Last(), all[len(all)-1])
	}
}

// TestIDN04_TheHolderIsTheLastBootThatIsNotEvicted: later refusals change nothing.
func TestIDN04_TheHolderIsTheLastBootThatIsNotEvicted(t *testing.T) {
	admit := func(boot string) DecisionEntry { return DecisionEntry{What: DecidedAdmit, BootID: boot} }
	evict := func(boot string) DecisionEntry {
		return DecisionEntry{What: DecidedEvict, Code: CodePeerRevoked, BootID: boot}
	}
	clone := DecisionEntry{What: DecidedConflict, Code: CodeInstanceConflict, BootID: "clone", HolderBootID: "b"}
	for name, c := range map[string]struct {
		entries []DecisionEntry
		want    string
	}{
		"no decision":                {nil, ""},
		"a refusal alone":            {[]DecisionEntry{clone}, ""},
		"the last admission":         {[]DecisionEntry{admit("a"), admit("b"), clone}, "b"},
		"evicted":                    {[]DecisionEntry{admit("a"), admit("b"), evict("b"), clone}, ""},
		"admitted after an eviction": {[]DecisionEntry{admit("a"), evict("a"), admit("b")}, "b"},
	} {
		d := Decisions{Slot: "db-1"}
		for i, e := range c.entries {
			// An earlier version kept refusals among the admissions.
			d.Entries, d.Head = link(d.Entries, e, start("db-1"), uint64(i), MaxDecisions)
		}
		if got := d.Holder(); got != c.want {
			t.Errorf("%s: %q holds the slot, want %q", name, got, c.want)
		}
	}
}

func TestARefusalBeganWhenItWasFirstRecorded(t *testing.T) {
	r := Refusal{At: noon}
	if got := r.Began(); !got.Equal(noon) {
		t.Errorf("refused once: since %s", got)
	}
	r.Since = noon.Add(-time.Hour)
	if got := r.Began(); !got.Equal(r.Since) {
		t.Errorf("refused for an hour: since %s", got)
	}
}

// TestABootAsksForAdmissionEverLessOften: up to a bound, which is lower while the Boot waits for its
// turn.
func TestABootAsksForAdmissionEverLessOften(t *testing.T) {
	for attempt, want := range map[int]time.Duration{-1: RetryFirst, 0: RetryFirst, 1: RetryFirst, 2: 2 * RetryFirst, 4: 8 * RetryFirst, 7: RetryMost, 1 << 40: RetryMost} {
		if got := RetrySpan(CodeOverloaded, attempt); got != want {
			t.Errorf("try %d: up to %s, want %s", attempt, got, want)
		}
	}
	for _, code := range []Code{CodeInstanceConflict, CodeInstanceMismatch, CodeRevisionNotAllowed, CodeGateUnreadable, CodeAdmissionRejected, CodeNonceInvalid} {
		if first, last := RetrySpan(code, 1), RetrySpan(code, 50); first != RetryFirst || last != RetryTurn {
			t.Errorf("%s: from %s to %s, want %s to %s", code, first, last, RetryFirst, RetryTurn)
		}
	}
}

// TestACodeIsFoundInAnError: the first text of a code's form. A single word may be any word.
func TestACodeIsFoundInAnError(t *testing.T) {
	for text, want := range map[string]string{
		"admit db-1: TCB_OUT_OF_DATE: the host is old": "TCB_OUT_OF_DATE", "NONCE_INVALID": "NONCE_INVALID", "FENCED, then PLAN_STALE": "PLAN_STALE",
		"NONCE_INVALID after PLAN_STALE": "NONCE_INVALID", "A_B": "", "connection refused by HOST": "", "xTCB_OUT": "", "": "",
	} {
		if got := CodeIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestACodeTellsWhetherAnotherTryMayPass: an unknown code has no class.
func TestACodeTellsWhetherAnotherTryMayPass(t *testing.T) {
	for code, want := range map[Code]Class{
		CodeRateLimited: ClassRetry, CodeCollateralUnavailable: ClassRetry, CodeRevisionNotAllowed: ClassPolicy, CodeBadRequest: ClassCaller,
		CodeQuoteInvalid: ClassAlarm, CodeSpecConflict: ClassState, "NO_SUCH_CODE": "",
	} {
		if got := code.Class(); got != want {
			t.Errorf("%s is of class %q, want %q", code, got, want)
		}
	}
}

// TestCTL10_RefusalsAreAChainToo: edited, removed, moved to the other chain.
func TestCTL10_RefusalsAreAChainToo(t *testing.T) {
	whole := func() Decisions {
		d := chain(2)
		for i := range 4 {
			d = d.Append("db-1", DecisionEntry{What: DecidedRefuse, Code: CodePeerRevoked, BootID: fmt.Sprint("boot", i)})
		}
		return d
	}
	if err := whole().Verify(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Decisions){
		"edited":          func(d *Decisions) { d.Refused[1].BootID = "x" },
		"last one edited": func(d *Decisions) { d.Refused[3].Message = "x" },
		"one removed":     func(d *Decisions) { d.Refused = append(d.Refused[:1:1], d.Refused[2:]...) },
		"order changed":   func(d *Decisions) { d.Refused[1], d.Refused[2] = d.Refused[2], d.Refused[1] },
		"all removed":     func(d *Decisions) { d.Refused = nil },
		"sides changed": func(d *Decisions) {
			d.Entries, d.Refused = d.Refused, d.Entries
			d.Head, d.RefusedHead = d.RefusedHead, d.Head
		},
	} {
		d := whole()
		spoil(&d)
		if err := d.Verify(); err == nil || !strings.HasPrefix(err.Error(), string(CodeAuditChainBroken)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecisionsOfAnEarlierVersionGoOn: it kept refusals among the admissions.
func TestDecisionsOfAnEarlierVersionGoOn(t *testing.T) {
	d := Decisions{Slot: "db-1"}
	for i := range 3 {
		e := DecisionEntry{What: DecidedAdmit, BootID: fmt.Sprint("boot", i)}
		if i == 1 {
			e.What = DecidedConflict
		}
		d.Entries, d.Head = link(d.Entries, e, start("db-1"), uint64(i), MaxDecisions)
	}
	d = d.Append("db-1", DecisionEntry{What: DecidedRefuse, BootID: "boot3"}).Append("db-1", DecisionEntry{What: DecidedEvict, BootID: "boot2"})
	if err := d.Verify(); err != nil || d.Last().Number != 5 || d.Had("boot1") || !d.Had("boot0") || len(d.All()) != 5 {
		t.Errorf("%v: %+v", err, d)
	}
}

func TestTextsOfDecisionsComeBackAsTheyWere(t *testing.T) {
	for _, text := range []string{strings.Repeat("<", 999), strings.Repeat("\x00", 999), strings.Repeat("\"", 999), strings.Repeat("\xff", 999), "a\xffb", strings.Repeat("\u2028", 999)} {
		d := Decisions{}.Append("db-1", DecisionEntry{What: DecidedRefuse, Message: text})
		encoded, err := json.Marshal(d)
		var back Decisions
		if err != nil || json.Unmarshal(encoded, &back) != nil || back.Verify() != nil {
			t.Errorf("%.8q: %v, %v", text, err, back.Verify())
		}
		if bare, err := json.Marshal(back.Last().Message); err != nil || len(bare) > maxDecisionText+len(`"..."`) {
			t.Errorf("%.8q takes %d bytes", text, len(bare))
		}
	}
}

func TestChecksNameTheFailedCheck(t *testing.T) {
	all := Checks("", "", map[CheckName]string{CheckTCB: "UpToDate"})
	for _, c := range all {
		if c.Outcome != CheckOK {
			t.Errorf("admitted, but %+v", c)
		}
	}
	if all[4].Detail != "UpToDate" {
		t.Errorf("tcb %+v", all[4])
	}
	for code, want := range map[Code]CheckName{
		CodeNonceInvalid: CheckNonce, CodeTCBOutOfDate: CheckTCB, CodeRevisionNotAllowed: CheckRevision,
		CodeInstanceConflict: CheckLease, CodeGateUnreadable: CheckLease, CodeOSImageForbidden: CheckImage,
	} {
		before := true
		for _, c := range Checks(code, "why", nil) {
			switch {
			case c.Name == want && (c.Outcome != CheckFailed || c.Code != code || c.Detail != "why"):
				t.Errorf("%s: %+v", code, c)
			case c.Name != want && before != (c.Outcome == CheckOK), c.Name != want && !before != (c.Outcome == CheckNotReached):
				t.Errorf("%s: %+v", code, c)
			}
			before = before && c.Name != want
		}
	}
}
