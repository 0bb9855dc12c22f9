package wheel

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var layout = Layout{Site: "site", Scripts: "bin", Python: "/usr/bin/python3"}

// write makes a wheel; files below bin/ are programs, as the mode of their entry says.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.whl")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for at, text := range files {
		h := &zip.FileHeader{Name: at, Method: zip.Deflate}
		if strings.Contains(at, "/bin/") {
			h.SetMode(0o755)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

const metadata = "Metadata-Version: 2.4\nName: Some_Thing\nVersion: 1.2\nLicense-Expression: MIT\n\nName: of nobody\n"

func TestReadPutsFilesWhereAnInstallerWould(t *testing.T) {
	p, err := Read(write(t, map[string]string{
		"thing/__init__.py": "code", "thing/bin/run": "elf", "thing/bin/lib.so": "elf", "thing-1.2.dist-info/METADATA": metadata, "thing-1.2.dist-info/licenses/LICENSE.txt": "text",
		"thing-1.2.data/scripts/run": "#!python\nx", "thing-1.2.data/purelib/pure.py": "p",
		"thing-1.2.dist-info/entry_points.txt": "[console_scripts]\nthing = thing.main:App.go\n[other]\nx = y:z\n",
	}), layout)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "Some_Thing" || p.Version != "1.2" || len(p.Licences) != 1 {
		t.Errorf("%s %s, %d licences", p.Name, p.Version, len(p.Licences))
	}
	got := map[string]string{}
	for _, e := range p.Files {
		got[e.Path] = string(e.Body.Data)
		runs := strings.HasPrefix(e.Path, "bin/") || e.Path == "site/thing/bin/run"
		if want := map[bool]int64{true: 0o755, false: 0o644}[runs]; e.Mode != want {
			t.Errorf("%s has mode %o, want %o", e.Path, e.Mode, want)
		}
	}
	for name, want := range map[string]string{
		"site/thing/__init__.py": "code", "bin/run": "#!/usr/bin/python3\nx", "site/pure.py": "p",
		"bin/thing": "#!/usr/bin/python3\nimport sys\nfrom thing.main import App\nif __name__ == \"__main__\":\n    sys.exit(App.go())\n",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 9 {
		t.Errorf("%d files: %v", len(got), got)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a path that leads out":    {"../x": "", "a.dist-info/METADATA": metadata},
		"an absolute path":         {"/etc/x": "", "a.dist-info/METADATA": metadata},
		"no metadata":              {"x.py": ""},
		"an unknown kind":          {"a.data/headers/x.h": "", "a.dist-info/METADATA": metadata},
		"code in an entry point":   {"a.dist-info/METADATA": metadata, "a.dist-info/entry_points.txt": "[console_scripts]\nx = os:system('x')\n"},
		"an entry point elsewhere": {"a.dist-info/METADATA": metadata, "a.dist-info/entry_points.txt": "[console_scripts]\n../x = a:b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(write(t, files), layout); err == nil {
				t.Error("taken")
			}
		})
	}
	bad := filepath.Join(t.TempDir(), "x.whl")
	if err := os.WriteFile(bad, []byte(strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bad, layout); err == nil {
		t.Error("no zip was taken")
	}
}

func TestAWheelTakesNothingOutOfAnImage(t *testing.T) {
	for _, name := range []string{"thing/.wh.other.py", "thing-1.2.data/data/.wh..wh..opq", ".wh.thing/x.py"} {
		_, err := Read(write(t, map[string]string{"thing-1.2.dist-info/METADATA": metadata, name: ""}), layout)
		if err == nil || !strings.Contains(err.Error(), "removes a file") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
