package policy

import (
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

func TestDecisionsCountWhatIsRepeated(t *testing.T) {
	d := chain(2)
	for range 100 {
		d = d.Append("db-1", DecisionEntry{What: DecidedConflict, Code: CodeInstanceConflict, BootID: "clone", HolderBootID: "boot1", By: "coordinator-1", Message: strings.Repeat("é", maxDecisionText)})
	}
	if last := d.Last(); len(d.Entries) != 3 || last.Times != 100 || last.Number != 3 || len(last.Message) > maxDecisionText+3 {
		t.Errorf("%d entries, last %+v", len(d.Entries), last)
	}
	if err := d.Verify(); err != nil {
		t.Error(err)
	}
}

func TestChecksNameTheOneThatFailed(t *testing.T) {
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
