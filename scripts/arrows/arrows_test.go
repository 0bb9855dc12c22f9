package arrows

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// ask prints a line for each package: its module, and its imports of Cadre's packages. Imports of
// tests count for packages that have only tests.
const ask = `{{.Module.Path}}{{range .Imports}} {{.}}{{end}}{{if not .Imports}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}{{end}}`

var (
	row    = regexp.MustCompile("(?m)^\\| `(?:components/)?([a-z/-]+)` \\| .* \\| ([^|]+) \\|$")
	module = regexp.MustCompile(`^cadre\.dev/(overlay/rendezvous|overlay/labtest|[^/]+)`)
)

func TestTheTableNamesWhatModulesImport(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", ask, "cadre.dev/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		from := module.FindStringSubmatch(paths[0])[1]
		if imported[from] == nil {
			imported[from] = map[string]bool{}
		}
		for _, path := range paths[1:] {
			if m := module.FindStringSubmatch(path); m != nil && m[1] != from {
				imported[from][m[1]] = true
			}
		}
	}
	delete(imported, "scripts")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		is := strings.Join(slices.Sorted(maps.Keys(imported[m[1]])), ", ")
		if is == "" {
			is = "–"
		}
		if m[2] != is && m[1] != "core" || imported[m[1]] == nil {
			t.Errorf("docs/explanation/architecture.md: %s imports %s, by the code %s", m[1], m[2], is)
		}
		delete(imported, m[1])
	}
	for name := range imported {
		t.Errorf("docs/explanation/architecture.md does not have %s", name)
	}
}

var (
	steps  = regexp.MustCompile(`(?m)^\| [0-9]+ \| .*\| (.*) \| (.*) \|$`)
	quoted = regexp.MustCompile("`([^`]+)`")
)

// TestTheTableOfOneChangeNamesWhatExists: each package of the table is a folder with code, and each record
// is one of docs/reference/kv.md, which is generated from the table of records.
func TestTheTableOfOneChangeNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := os.ReadFile(root + "/docs/reference/kv.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := steps.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 10 {
		t.Fatalf("docs/explanation/architecture.md has %d steps of one change", len(rows))
	}
	for _, row := range rows {
		for _, code := range quoted.FindAllStringSubmatch(row[1], -1) {
			if strings.HasPrefix(code[1], "consul ") {
				continue // a command
			}
			if found, err := filepath.Glob(root + "/components/" + code[1] + "/*.go"); err != nil || len(found) == 0 {
				t.Errorf("docs/explanation/architecture.md names a package %s: there is no code", code[1])
			}
		}
		for _, record := range quoted.FindAllStringSubmatch(row[2], -1) {
			if !strings.Contains(string(records), "\n| `"+record[1]+"` |") {
				t.Errorf("docs/explanation/architecture.md names a record %s, which docs/reference/kv.md does not have", record[1])
			}
		}
	}
}
