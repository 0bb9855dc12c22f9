package main

import (
	"bytes"
	"os"
	"testing"

	"cadre.dev/store"
)

func TestDocsAreCurrent(t *testing.T) {
	const file = "../../../../docs/reference/kv.md"
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := render(); !bytes.Equal(got, want) {
		t.Fatalf("docs/reference/kv.md is not what the table of records says: run go generate in components/store")
	}
}

// TestTheGlossaryHasEveryRecord: a reader of a key finds its noun.
func TestTheGlossaryHasEveryRecord(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range store.Records {
		if !bytes.Contains(page, []byte("`"+kind.Pattern+"`")) {
			t.Errorf("docs/glossary.md has no entry with `%s`", kind.Pattern)
		}
	}
}
