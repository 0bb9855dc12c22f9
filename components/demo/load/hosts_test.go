package load

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestHostsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte("127.50.1.1 postgres-0\n127.50.1.2 postgres-1 second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"postgres-1": "127.50.1.2", "second": "127.50.1.2", "127.50.9.9": "127.50.9.9"} {
		got, err := HostsFile(path)(t.Context(), name)
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("look up %s = %v, %v; want %s", name, got, err, want)
		}
	}
}
