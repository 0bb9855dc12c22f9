package roots

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cadre.dev/overlay/internal/identity/identitytest"
)

func TestDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := identitytest.NewAuthority(t, "a.cadre")
	write("a.cadre.pem", a.PEM)
	write("broken.pem", []byte("no certificate"))
	write("Upper.pem", a.PEM)
	write("notes.txt", a.PEM)
	write("long.pem", make([]byte, maxFile+1))
	d, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Clusters(); !slices.Equal(got, []string{"a.cadre"}) {
		t.Errorf("clusters %v, want a.cadre", got)
	}
	if d.Pool("a.cadre") == nil || d.Pool("broken") != nil || d.Pool("b") != nil {
		t.Error("wrong pools")
	}
	if changed, err := d.Read(); err != nil || changed {
		t.Errorf("nothing has changed: %v, error %v", changed, err)
	}
	write("b.pem", a.PEM)
	if err := os.Remove(filepath.Join(dir, "a.cadre.pem")); err != nil {
		t.Fatal(err)
	}
	if changed, err := d.Read(); err != nil || !changed || !slices.Equal(d.Clusters(), []string{"b"}) {
		t.Errorf("changed %v, clusters %v, error %v, want b", changed, d.Clusters(), err)
	}
	if _, err := Open(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("a missing directory is no error")
	}
}
