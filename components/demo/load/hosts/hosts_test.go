package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNamesOfTheFileComeFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("127.50.1.1 postgres-0\n127.50.1.2 postgres-1 second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"postgres-1": "127.50.1.2", "second": "127.50.1.2", "127.50.9.9": "127.50.9.9"} {
		got, err := File(path)(t.Context(), name)
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("look up %s = %v, %v; want %s", name, got, err, want)
		}
	}
}

// Names are looked up as the file is now; before it is there, the system knows some.
func TestTheFileMayAppearLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	lookup := File(path)
	if got, err := lookup(t.Context(), "localhost"); err != nil || len(got) == 0 {
		t.Errorf("without a file localhost = %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("127.10.0.1 postgres-master\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := lookup(t.Context(), "postgres-master"); err != nil || !slices.Equal(got, []string{"127.10.0.1"}) {
		t.Errorf("once it is there = %v, %v", got, err)
	}
}
