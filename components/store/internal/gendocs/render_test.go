package main

import (
	"bytes"
	"os"
	"testing"
)

func TestDocsAreCurrent(t *testing.T) {
	const file = "../../../../docs/kv.md"
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := render(); !bytes.Equal(got, want) {
		t.Fatalf("docs/kv.md is not what the table of records says: run go generate in components/store")
	}
}
