package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/images/internal/oci"
)

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing": nil, "no command": {"--only", "x"}, "unknown command": {"bild"}, "two commands": {"build", "list"}, "unknown flag": {"build", "--x"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			root := repository(t)
			if len(args) > 0 {
				args = append(args, "--root", root)
			}
			if err := run(t.Context(), args, &out, &errs); !errors.Is(err, errUsage) {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(errs.String(), "Usage: cadre-images build|reproduce|lock|list") {
				t.Errorf("said %q", errs.String())
			}
		})
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.work"), []byte("go 1.26.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRootMustBeTheRepository(t *testing.T) {
	err := run(t.Context(), []string{"list", "--root", t.TempDir()}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "--root") {
		t.Errorf("got %v", err)
	}
}

func TestList(t *testing.T) {
	root := repository(t)
	if err := oci.WriteLayout(filepath.Join(root, ".out/images"), nil); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"list", "--root", root}, &bytes.Buffer{}, &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}
