package store

import "testing"

// TestEveryKindDecidesAboutBackups: each kind is in a backup, or has the reason why it is not.
func TestEveryKindDecidesAboutBackups(t *testing.T) {
	known := map[string]bool{}
	for _, kind := range Records {
		known[kind.Pattern] = true
		if kind.InBackup() == (kind.WhyNoBackup() != "") {
			t.Errorf("%s: decide in backup.go: it is in a backup (%t), or there is a reason why not (%q)", kind.Pattern, kind.InBackup(), kind.WhyNoBackup())
		}
	}
	for pattern := range backedUp {
		if !known[pattern] {
			t.Errorf("%s is no kind of record", pattern)
		}
	}
	for pattern := range leftOut {
		if !known[pattern] {
			t.Errorf("%s is no kind of record", pattern)
		}
	}
}

// TestARestoreCreatesATermAndLowersNone: only an absent Term is written outside of the Lease.
func TestARestoreCreatesATermAndLowersNone(t *testing.T) {
	put := func(kind OpKind, index uint64) error {
		return ValidateOps([]Op{{Kind: kind, Key: TermKey, Value: []byte(`{"term":1}`), Index: index}})
	}
	if err := put(OpPutCAS, 0); err != nil {
		t.Errorf("an absent term: %v", err)
	}
	for _, err := range []error{put(OpPutCAS, 4), put(OpPut, 0), put(OpDelete, 0)} {
		if err == nil {
			t.Error("a present term is written outside of the lease")
		}
	}
}

// TestRestoredRecordsCountAsOlder: until an operator raises the state.
func TestRestoredRecordsCountAsOlder(t *testing.T) {
	for _, c := range []struct {
		facts  StateFacts
		halted bool
	}{
		{StateFacts{Stored: 6, Restored: 7}, true},
		{StateFacts{Stored: 6, Raised: 7, Restored: 7}, false},
		{StateFacts{Stored: 8, Restored: 7}, false},
		{StateFacts{Stored: 8, Restored: 7, Seen: 9}, true},
	} {
		if err := c.facts.Regressed(); (err != nil) != c.halted {
			t.Errorf("%+v: %v", c.facts, err)
		}
	}
}
