package main

import (
	"bytes"
	"os"
	"testing"
)

func TestThePageIsWhatTheHelpTextsSay(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, render()) {
		t.Fatal("docs/reference/cli.md differs from the help texts: run go generate ./internal/gendocs in components/cli")
	}
	if !bytes.Contains(page, []byte("\n## cadre rollout plan\n")) {
		t.Fatal("docs/reference/cli.md has no section for `cadre rollout plan`")
	}
}
