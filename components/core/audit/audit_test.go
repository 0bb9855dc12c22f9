package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/audit"
)

const clusterID = "0123456789abcdef0123456789abcdef"

var (
	began = time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	key   = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	ca    = key.Public().(ed25519.PublicKey)
)

// chainOf returns a chain with one entry for each reason.
func chainOf(reasons ...string) (head audit.Head, entries []audit.Entry) {
	for n, reason := range reasons {
		var e audit.Entry
		head, e = head.Append(audit.Entry{
			At: began.Add(time.Duration(n) * time.Second), Who: audit.Operator, By: "alice", Verb: "freeze",
			Object: "control/freeze/pg", After: audit.ValueDigest([]byte(reason), true), Reason: reason,
		})
		entries = append(entries, e)
	}
	return head, entries
}

func signed(head audit.Head) audit.SignedHead {
	s := audit.SignedHead{Cluster: "demo", ClusterID: clusterID, Head: head, At: began.Add(time.Hour)}
	s.Signature = ed25519.Sign(key, s.Statement())
	return s
}

func file(t *testing.T, head audit.SignedHead, entries ...audit.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	write := json.NewEncoder(&out)
	for _, e := range entries {
		if err := write.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := write.Encode(audit.HeadLine(head)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCTL21_AChangedExportIsRefused: each change of a file is found, and the file itself is not.
func TestCTL21_AChangedExportIsRefused(t *testing.T) {
	head, entries := chainOf("one", "two", "three", "four")
	good := signed(head)
	if x, err := audit.ParseExport(file(t, good, entries...), clusterID, ca); err != nil || len(x.Entries) != 4 {
		t.Fatalf("the whole chain: %d entries, %v", len(x.Entries), err)
	}
	edited := slices.Clone(entries)
	edited[1].Reason = "another"
	lastEdited := slices.Clone(entries)
	lastEdited[3].By = "mallory"
	backDated := slices.Clone(entries)
	backDated[2].At = began.Add(-time.Hour)
	swapped := []audit.Entry{entries[0], entries[2], entries[1], entries[3]}
	_, earlier := head.Append(audit.Entry{At: began})
	earlier.At = began.Add(-time.Hour)
	again := audit.Head{Last: audit.Point{Number: 5, Digest: earlier.Digest()}, At: earlier.At}
	otherKey := signed(head)
	otherKey.Signature = ed25519.Sign(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)), otherKey.Statement())
	late := audit.SignedHead{Cluster: "demo", ClusterID: clusterID, Head: head, At: began.Add(-time.Hour)}
	late.Signature = ed25519.Sign(key, late.Statement())
	whole := file(t, good, entries...)
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"an edited entry":            {file(t, good, edited...), "entry 3 does not name the digest of entry 2"},
		"an edited last entry":       {file(t, good, lastEdited...), "entry 4 is not the entry that the head names"},
		"a back-dated entry":         {file(t, good, backDated...), "has the time"},
		"a back-dated, linked entry": {file(t, signed(again), append(slices.Clone(entries), earlier)...), "has the time"},
		"another order":              {file(t, good, swapped...), "entry 3 follows entry 1"},
		"a missing entry":            {file(t, good, entries[0], entries[1], entries[3]), "entry 4 follows entry 2"},
		"a repeated entry":           {file(t, good, entries[0], entries[0]), "entry 1 follows entry 1"},
		"without the first entries":  {file(t, good, entries[2:]...), "entry 3 follows entry 0"},
		"without the last entry":     {file(t, good, entries[:3]...), "the entries end at 3"},
		"without a head":             {whole[:bytes.LastIndexByte(bytes.TrimSpace(whole), '\n')], "the last line has no signed head"},
		"cut in the last line":       {whole[:len(whole)-20], "the last line has no signed head"},
		"empty":                      {nil, "the last line has no signed head"},
		"another key":                {file(t, otherKey, entries...), "is not of the cluster CA"},
		"a signature before the end": {file(t, late, entries...), "after the signature"},
		"an unknown field":           {bytes.Replace(whole, []byte(`"who"`), []byte(`"whom"`), 1), "line 1"},
		"a long line":                {append(bytes.Repeat([]byte("x"), 1<<20), whole...), "bytes, at most"},
	} {
		if _, err := audit.ParseExport(c.text, clusterID, ca); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := audit.ParseExport(whole, "another", ca); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("another cluster: %v", err)
	}
}

// TestCTL21_AForkIsFound: a chain that was written again differs from an earlier export.
func TestCTL21_AForkIsFound(t *testing.T) {
	export := func(from int, reasons ...string) audit.Export {
		head, entries := chainOf(reasons...)
		if from > 0 {
			head.Checkpoint = audit.Point{Number: uint64(from), Digest: entries[from-1].Digest()}
		}
		x, err := audit.ParseExport(file(t, signed(head), entries[from:]...), clusterID, ca)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	old := export(0, "one", "two", "three")
	for name, c := range map[string]struct {
		now  audit.Export
		want string
	}{
		"the same chain":                {export(0, "one", "two", "three"), ""},
		"a longer chain":                {export(0, "one", "two", "three", "four"), ""},
		"a longer chain, begin removed": {export(2, "one", "two", "three", "four"), ""},
		"begin removed up to the head":  {export(3, "one", "two", "three", "four"), ""},
		"a fork":                        {export(0, "one", "two", "other", "four"), "entry 3 differs"},
		"a fork before the checkpoint":  {export(3, "one", "other", "three", "four"), "entry 3 differs"},
		"a shorter chain":               {export(0, "one", "two"), "entries are missing"},
		"no common entry":               {export(4, "one", "two", "three", "four", "five"), "no entry in common"},
	} {
		err := c.now.Continues(old)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if gap := name == "no common entry"; errors.Is(err, audit.ErrNoCommonEntry) != gap {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAppend_BoundsAndOrdersEntries: an entry with long texts is small, and a slow clock does not
// give an entry a time before that of the last one.
func TestAppend_BoundsAndOrdersEntries(t *testing.T) {
	long := strings.Repeat("\x01\xff<", 5000)
	digest := audit.ValueDigest([]byte("x"), true)
	head, first := audit.Head{}.Append(audit.Entry{
		At: began, Who: audit.Operator, By: long, Request: long, Verb: long, Object: long, Reason: long, Before: digest, After: digest,
	})
	text, err := json.Marshal(first)
	if err != nil || len(text) > audit.MaxEntryBytes {
		t.Errorf("the entry has %d bytes, %v", len(text), err)
	}
	var back audit.Entry
	if err := json.Unmarshal(text, &back); err != nil || back.Digest() != first.Digest() {
		t.Errorf("the entry has another digest after it was read back: %v", err)
	}
	if _, second := head.Append(audit.Entry{At: began.Add(-time.Hour)}); !second.At.Equal(began) {
		t.Errorf("the second entry has the time %s", second.At)
	}
}

// TestAbout_MatchesKeysAndTheirParts: a name of a group or a Slot finds all records about it.
func TestAbout_MatchesKeysAndTheirParts(t *testing.T) {
	e := audit.Entry{Object: "control/rotate/pg/password"}
	for object, want := range map[string]bool{
		"": true, "pg": true, "password": true, "control/rotate/pg/password": true, "control/rotate/": true, "pg/password": true,
		"p": false, "control/rot": false, "pg-0": false,
	} {
		if e.About(object) != want {
			t.Errorf("%q: %v", object, !want)
		}
	}
	for key, want := range map[string]bool{
		"control/drain/pg-2": true, "rollouts/pg-12": true, "control/drain/pg-b-2": false, "control/queue/restart-1f": false, "control/pause/pg2": false,
	} {
		if got := (audit.Entry{Object: key}).About("pg"); got != want {
			t.Errorf("%s is about pg: %v", key, got)
		}
	}
}
