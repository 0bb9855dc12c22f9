package recipe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const pins = `
toolchain = "go1.26.8"
version   = "dev"
suite     = "bookworm"
python    = "3.11"
`

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if files["pins.hcl"] == "" {
		files["pins.hcl"] = pins
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRecipesSayWhatIsWrongWithThem(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"unknown field", map[string]string{"a.hcl": "image \"a\" {\n  description = \"\"\n  run_as = \"0:0\"\n  pakages = []\n}\n"}, []string{"a.hcl:4", "pakages"}},
		{"another name", map[string]string{"a.hcl": `image "b" { description = "" }`}, []string{`a recipe is one block, image "a" or layer "a"`}},
		{"on nothing", map[string]string{"a.hcl": "image \"a\" {\n description = \"\"\n run_as = \"0:0\"\n from = \"b\"\n}"}, []string{`a.hcl: from: "b" is no layer`}},
		{"on itself", map[string]string{"a.hcl": "layer \"a\" {\n description = \"\"\n from = \"a\"\n}"}, []string{`has "a" as its base itself`}},
		{"user by name", map[string]string{"a.hcl": "image \"a\" {\n description = \"\"\n run_as = \"root\"\n}"}, []string{"run_as"}},
		{"several", map[string]string{
			"a.hcl": "image \"a\" {\n description = \"\"\n run_as = \"0:0\"\n wheels = [\"x>1\"]\n drop = [\"/x\"]\n directory \"d\" { mode = \"99\" }\n directory \"e\" { owner = \"me\" }\n}",
		}, []string{"x>1", "drop", `directory "d": mode`, `directory "e": owner`}},
		{"prebuilt", map[string]string{
			"a.hcl": "image \"a\" {\n description = \"\"\n run_as = \"0:0\"\n wheels = [\"Some_Thing==1\"]\n prebuilt \"P\" {\n wheel = \"some-thing==2\"\n file = \"../p\"\n }\n prebuilt \"q\" {\n wheel = \"q\"\n file = \"q\"\n }\n}",
		}, []string{
			`prebuilt "P": the name`, `prebuilt "P": wheel: some-thing is one of wheels`, `prebuilt "P": file: "../p"`, `prebuilt "q": wheel: "q" names no exact version`,
			`prebuilt "q": no file "usr/share/doc/q/copyright" has its licence`, "wheel some-thing==2 is not in a.lock",
		}},
		{"not locked", map[string]string{"a.hcl": "image \"a\" {\n description = \"\"\n run_as = \"0:0\"\n debs = [\"dash\"]\n}"}, []string{"package dash is not in a.lock: lock again with make images-lock"}},
		{"toolchain", map[string]string{"pins.hcl": strings.ReplaceAll(pins, "go1.26.8", "1.26"), "a.hcl": `layer "a" { description = "" }`}, []string{"pins.hcl: toolchain"}},
		{"broken lock", map[string]string{"a.hcl": `layer "a" { description = "" }`, "a.lock": "deb\n"}, []string{"a.lock:1:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(folder(t, c.files), true)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestTheRepositorysRecipesAreLocked(t *testing.T) {
	set, err := Load("../../recipes", true)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range set.Images() {
		names = append(names, r.Name)
	}
	for _, want := range []string{"cadre-agent", "cadre-coordinator", "cadre-rendezvous", "consul", "etcd", "light", "load", "nats", "patroni", "webdemo"} {
		if !slices.Contains(names, want) {
			t.Errorf("no image %s in %v", want, names)
		}
	}
}

func TestDrop(t *testing.T) {
	r := Recipe{Drop: []string{"usr/share/man/**", "usr/share/doc/*/changelog*"}}
	for name, want := range map[string]bool{
		"usr/share/man": true, "usr/share/man/man1/ls.1.gz": true, "usr/share/manual": false,
		"usr/share/doc/dash/changelog.gz": true, "usr/share/doc/dash/copyright": false,
	} {
		if got := r.Dropped(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
