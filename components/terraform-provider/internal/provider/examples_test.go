package provider_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The provider accepts each example of the documentation.
func TestExamplesAreValid(t *testing.T) {
	program := tofu(t)
	files, err := filepath.Glob("../../examples/*/*/*.tf")
	more, _ := filepath.Glob("../../examples/provider/*.tf")
	if files = append(files, more...); err != nil || len(files) < 11 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f := newFolder(t, program)
			if filepath.Base(file) == "provider.tf" {
				f.write("providers.tf", "")
			}
			f.write("main.tf", string(text))
			f.must("validate")
		})
	}
}
