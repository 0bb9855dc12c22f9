package rules

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/policy"
)

const (
	codesPage = "../../../../docs/reference/reason-codes.md"
	// sources are the sources of all components; core may be here without the others.
	sources   = "../../.."
	codesFile = "core/policy/codes.go"
)

var (
	named    = regexp.MustCompile(`(?m)^(?:const |\t)((?:Hold|Condition|Cause)\w+) +(?:Cause )?= "(\w+)"`)
	declared = regexp.MustCompile(`(?m)^\t(Code\w+) +Code = "([A-Z_]+)"`)
	codeWord = regexp.MustCompile(`\b(?:Code\w+|[A-Z]{2,}(?:_[A-Z]+)*)\b`)
	// otherwise are names in the form of codes that no list has: reasons of conditions and of
	// problems, answers of the Consul proxy, and prefixes of texts.
	otherwise = []*regexp.Regexp{
		regexp.MustCompile(`\b(?:Reason|Rule)(?::| =) +"([A-Z]+(?:_[A-Z]+)+)"`),
		regexp.MustCompile(`(?m)^\tProblem\w+ += "([A-Z_]+)"`),
		regexp.MustCompile(`"(CONSUL_PROXY_[A-Z_]+)"`),
		regexp.MustCompile(`"([A-Z]{2,}(?:_[A-Z]+)+): `),
	}
	codeRow = regexp.MustCompile("^\\| `(\\w+)` \\| (.*) \\|$")
)

// rowsOf are the rows of a section of the page, by the name in the first column.
func rowsOf(t *testing.T, text, heading string) map[string][]string {
	t.Helper()
	_, section, ok := strings.Cut(text, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the page has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	out := map[string][]string{}
	for line := range strings.SplitSeq(section, "\n") {
		m := codeRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		cells := strings.Split(m[2], " | ")
		if _, twice := out[m[1]]; twice {
			t.Errorf("%s: %s stands twice", heading, m[1])
		}
		for i, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("%s: %s: column %d says nothing", heading, m[1], i+2)
			}
		}
		out[m[1]] = cells
	}
	return out
}

// code is the text of all sources but tests, by file.
func code(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(sources, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil || out[codesFile] == "" {
		t.Fatalf("%d sources: %v", len(out), err)
	}
	if _, whole := out["coordinator/coordinator.go"]; !whole {
		t.Skip("the other components are not here: core was taken out of its repository")
	}
	return out
}

func same(t *testing.T, what string, page map[string][]string, code map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(code)) {
		if page[name] == nil {
			t.Errorf("%s: the page misses %s: say what it means and what clears it", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(page)) {
		if !code[name] {
			t.Errorf("%s: the page has %s, and nothing in the code says it", what, name)
		}
	}
}

// The page has a row for each reason name in the code: of a wait, an end and a state.
func TestR140_ReasonsAreOnThePage(t *testing.T) {
	text, all := page(t, codesPage), code(t)
	said := map[string]map[string]bool{"Hold": {}, "Condition": {}, "Cause": {}}
	for file, text := range all {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			for kind, names := range said {
				// The planner's own are on the page of the rules, which has a test of its own.
				if strings.HasPrefix(m[1], kind) && file != "core/rollout/holdnames.go" {
					names[m[2]] = true
				}
			}
		}
	}
	for kind, least := range map[string]int{"Hold": 1, "Condition": 16, "Cause": 14} {
		if len(said[kind]) < least {
			t.Errorf("%d names of kind %s were found in the code, want %d at least: the search misses some", len(said[kind]), kind, least)
		}
	}
	same(t, "holds", rowsOf(t, text, "Holds"), said["Hold"])
	same(t, "causes", rowsOf(t, text, "How an operation ends"), said["Cause"])
	same(t, "conditions", rowsOf(t, text, "Conditions"), said["Condition"])
}

var classWords = map[policy.Class]string{
	policy.ClassCaller: "caller", policy.ClassPolicy: "policy", policy.ClassRetry: "retry", policy.ClassAlarm: "alarm", policy.ClassState: "state",
}

// classesOf are the headings over the codes, by code.
func classesOf(text string) map[string]string {
	_, section, _ := strings.Cut(text, "\n## Codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	out, class := map[string]string{}, ""
	for line := range strings.SplitSeq(section, "\n") {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			class = heading
		} else if m := codeRow.FindStringSubmatch(line); m != nil {
			out[m[1]] = class
		}
	}
	return out
}

// The page has a row for each code that the code produces, with its class, and no row for a code
// that is only reserved.
func TestR140_CodesAreOnThePage(t *testing.T) {
	text, all := page(t, codesPage), code(t)
	told := rowsOf(t, text, "Codes")
	classes := classesOf(text)
	words := map[string]bool{}
	for file, text := range all {
		if file == codesFile {
			continue
		}
		for _, word := range codeWord.FindAllString(text, -1) {
			words[word] = true
		}
	}
	produced := map[string]bool{}
	for _, m := range declared.FindAllStringSubmatch(all[codesFile], -1) {
		if words[m[1]] || words[m[2]] {
			produced[m[2]] = true
		}
	}
	if len(produced) < 60 {
		t.Fatalf("%d codes were found in the code: the search misses some", len(produced))
	}
	same(t, "codes", told, produced)
	for name := range told {
		if want := classWords[policy.Code(name).Class()]; classes[name] != want {
			t.Errorf("%s stands under the class %q, and its class is %s", name, classes[name], want)
		}
	}
}

// The page has a row for each name of the same form that is no code of the list.
func TestR140_OtherNamesAreOnThePage(t *testing.T) {
	text, all := page(t, codesPage), code(t)
	said := map[string]bool{}
	for file, text := range all {
		for _, form := range otherwise {
			found := 0
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				if found++; !policy.Code(m[1]).Known() {
					said[m[1]] = true
				}
			}
			if file == "core/policy/fold.go" && form == otherwise[1] && found < 5 {
				t.Errorf("%d reasons of problems were found in %s: the search misses some", found, file)
			}
		}
	}
	same(t, "other names", rowsOf(t, text, "Other names"), said)
}
