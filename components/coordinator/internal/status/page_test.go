package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/operation"
)

const (
	repository = "../../../.."
	figurePage = repository + "/docs/guides/monitoring.md"
	alertsFile = repository + "/docs/guides/alerts.yaml"
	panelsFile = repository + "/docs/guides/dashboard.json"
)

var (
	wordOnly = regexp.MustCompile(`^[a-z][a-z_]*$`)
	// figureUse is a metric in a text, with its labels in braces if it has any.
	figureUse = regexp.MustCompile(`\b(cadre_[a-z_]+)(?:\{([^{}]*)\})?`)
	labelUse  = regexp.MustCompile(`([a-z_]+) *(?:(!?=~?) *"([^"]*)")?`)
	grouping  = regexp.MustCompile(`\b(?:by|without|ignoring|on) *\(([^)]*)\)`)
	shown     = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

// source has the registered metrics of all components, by name with their labels, and the texts of
// the constants, by type or by the first word of their name.
type source struct {
	figures map[string]map[string]bool
	words   map[string][]string
}

// maker is a function that creates metrics with a common prefix, such as desc: its own labels come
// first.
type maker struct {
	prefix string
	labels []string
}

func readSource(t *testing.T) source {
	t.Helper()
	s := source{figures: map[string]map[string]bool{}, words: map[string][]string{}}
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(repository+"/components", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range packages {
		makers := map[string]maker{}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool { findMaker(n, makers); return true })
		}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool { s.findFigures(n, makers); s.findWords(n); return true })
		}
	}
	return s
}

// findMaker adds a function that prefixes the names in its arguments.
func findMaker(n ast.Node, makers map[string]maker) {
	name, body := "", ast.Node(nil)
	switch n := n.(type) {
	case *ast.FuncDecl:
		name, body = n.Name.Name, n.Body
	case *ast.AssignStmt:
		if f, is := n.Rhs[0].(*ast.FuncLit); is {
			if ident, is := n.Lhs[0].(*ast.Ident); is {
				name, body = ident.Name, f.Body
			}
		}
	}
	if body == nil {
		return
	}
	found := maker{}
	ast.Inspect(body, func(n ast.Node) bool {
		if sum, is := n.(*ast.BinaryExpr); is && sum.Op == token.ADD {
			if _, given := sum.Y.(*ast.Ident); given && strings.HasPrefix(text(sum.X), "cadre_") {
				found.prefix = text(sum.X)
			}
		}
		return true
	})
	if found.prefix != "" {
		found.labels = words(body)
		makers[name] = found
	}
}

// findFigures adds the metrics that a call registers.
func (s source) findFigures(n ast.Node, makers map[string]maker) {
	call, is := n.(*ast.CallExpr)
	if !is || len(call.Args) == 0 {
		return
	}
	callee := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		callee = f.Name
	case *ast.SelectorExpr:
		callee = f.Sel.Name
	}
	if m, is := makers[callee]; is && text(call.Args[0]) != "" {
		s.figure(m.prefix+text(call.Args[0]), slices.Concat(m.labels, words(call))...)
		return
	}
	for _, arg := range call.Args {
		if name := text(arg); strings.HasPrefix(name, "cadre_") {
			s.figure(name, words(call)...)
		}
		options, is := arg.(*ast.CompositeLit)
		for i := 0; is && i < len(options.Elts); i++ {
			if field, is := options.Elts[i].(*ast.KeyValueExpr); is && strings.HasPrefix(text(field.Value), "cadre_") {
				s.figure(text(field.Value), words(call)...)
			}
		}
	}
}

func (s source) figure(name string, labels ...string) {
	if strings.HasSuffix(name, "_") {
		return // the common prefix of the names
	}
	if s.figures[name] == nil {
		s.figures[name] = map[string]bool{"instance": true, "cluster": true} // of `cadre metrics`
	}
	for _, l := range labels {
		s.figures[name][l] = true
	}
}

// findWords adds constants.
func (s source) findWords(n ast.Node) {
	spec, is := n.(*ast.ValueSpec)
	if !is || len(spec.Values) != len(spec.Names) {
		return
	}
	for i, value := range spec.Values {
		word := text(value)
		if word == "" {
			continue
		}
		if of, typed := spec.Type.(*ast.Ident); typed {
			s.words[of.Name] = append(s.words[of.Name], word)
		}
		for _, kind := range []string{"Condition", "Hold", "Outcome"} {
			if strings.HasPrefix(spec.Names[i].Name, kind) {
				s.words[kind] = append(s.words[kind], word)
			}
		}
	}
}

// text returns the value of a string literal, "" for another expression.
func text(n ast.Expr) string {
	lit, is := n.(*ast.BasicLit)
	if !is || lit.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// words returns the one-word texts in n.
func words(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if e, is := n.(ast.Expr); is && wordOnly.MatchString(text(e)) {
			out = append(out, text(e))
		}
		return true
	})
	return out
}

// values returns the possible values of a metric's label; nil: no list has them.
func (s source) values(figure, label string) []string {
	switch {
	case label == "condition":
		return s.words["Condition"]
	case label == "hold":
		return s.words["Hold"]
	case label == "state" && figure == "cadre_group_slots":
		return s.words["SlotState"]
	case label == "state":
		return s.words["RolloutState"]
	case label == "action":
		return s.words["Kind"]
	case label == "phase", label == "outcome" && strings.HasPrefix(figure, "cadre_group_"):
		return s.words["Phase"]
	case label == "outcome":
		return s.words["Outcome"]
	case label == "actor":
		return s.words["Actor"]
	case label == "change":
		return s.words["SetVerb"]
	case label == "result":
		return []string{"done", "error", "conflict"}
	case label == "health":
		return s.words["Health"]
	}
	return nil
}

// check compares the metrics in a text, their labels and label values with the code. It returns the
// names and all labels.
func (s source) check(t *testing.T, where, said string) (names []string, labels map[string]bool) {
	t.Helper()
	labels = map[string]bool{}
	for _, use := range figureUse.FindAllStringSubmatch(said, -1) {
		name := use[1]
		if strings.HasSuffix(name, "_") && slices.ContainsFunc(s.all(), func(one string) bool { return strings.HasPrefix(one, name) }) {
			continue // a family
		}
		has, is := s.figures[name]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base, of := strings.CutSuffix(name, part); of && !is {
				has, is = s.figures[base]
			}
		}
		if !is {
			t.Errorf("%s: no code registers %s", where, name)
			continue
		}
		names = append(names, name)
		for l := range has {
			labels[l] = true
		}
		for _, l := range labelUse.FindAllStringSubmatch(use[2], -1) {
			if !has[l[1]] {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
			for value := range strings.SplitSeq(l[3], "|") {
				if may := s.values(name, l[1]); l[2] != "" && value[:min(len(value), 1)] != "$" && !slices.Contains(may, value) {
					t.Errorf("%s: %s of %s is never %q", where, l[1], name, value)
				}
			}
		}
	}
	return names, labels
}

func (s source) all() (out []string) {
	for name := range s.figures {
		out = append(out, name)
	}
	return out
}

// TestThePageListsEveryMetric: the page has every metric of a group, and no unregistered one.
func TestThePageListsEveryMetric(t *testing.T) {
	s := readSource(t)
	page, err := os.ReadFile(figurePage)
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := s.check(t, "docs/guides/monitoring.md", string(page))
	if len(metrics) < 40 {
		t.Errorf("%d figures were found on the page: the search misses some", len(metrics))
	}
	m := NewMetrics()
	m.Groups(records)
	m.Leads(true, 1)
	m.Ended(operation.Operation{Group: "pg", Kind: operation.Restart, Phase: operation.Done})
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, family := range families {
		name := family.GetName()
		has, found := s.figures[name]
		if !found {
			t.Errorf("%s is registered, and was not found in the code: the search misses some", name)
		}
		for _, l := range family.GetMetric()[0].GetLabel() {
			if !has[l.GetName()] {
				t.Errorf("%s has a label %s that was not found in the code: the search misses some", name, l.GetName())
			}
		}
		if strings.HasPrefix(name, "cadre_group_") {
			if groups++; !slices.Contains(metrics, name) {
				t.Errorf("docs/guides/monitoring.md has no row for %s", name)
			}
		}
	}
	if groups != len(slices.DeleteFunc(s.all(), func(name string) bool { return !strings.HasPrefix(name, "cadre_group_") })) {
		t.Errorf("%d metrics of groups are served, others are in the code: add records to this test until all are served", groups)
	}
	// The page lists the values in the column next to the metric.
	row := regexp.MustCompile("(?m)^\\| (`cadre_group_[^|]*) \\| ([^|]*) \\| ([^|]*) \\|$")
	word := regexp.MustCompile("`([A-Za-z_]+)`")
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		_, labels := s.check(t, r[1], r[1])
		for _, w := range word.FindAllStringSubmatch(r[2]+r[3], -1) {
			known := labels[w[1]] || w[1] == "min_ready_seconds"
			for l := range labels {
				known = known || slices.Contains(s.values(figureUse.FindStringSubmatch(r[1])[1], l), w[1])
			}
			if !known {
				t.Errorf("docs/guides/monitoring.md: %s: %q is no label of it, and no label's value", r[1], w[1])
			}
		}
	}
}

// TestTheAlertsUseServedMetrics: the alerts' metrics, labels and values exist in the code. Each
// alert has a severity, a command and a link.
func TestTheAlertsUseServedMetrics(t *testing.T) {
	s := readSource(t)
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(raw)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Alert == "" {
				t.Errorf("alert %q stands twice, or has no name", r.Alert)
			}
			seen[r.Alert] = true
			names, labels := s.check(t, r.Alert, r.Expr)
			if len(names) == 0 {
				t.Errorf("%s asks for no figure", r.Alert)
			}
			for _, by := range grouping.FindAllStringSubmatch(r.Expr, -1) {
				for l := range strings.SplitSeq(by[1], ",") {
					if !labels[strings.TrimSpace(l)] {
						t.Errorf("%s: none of %v has a label %s", r.Alert, names, l)
					}
				}
			}
			for key, value := range r.Annotations {
				for _, l := range shown.FindAllStringSubmatch(value, -1) {
					if !labels[l[1]] {
						t.Errorf("%s: %s shows a label %s that none of %v has", r.Alert, key, l[1], names)
					}
				}
			}
			if severity := r.Labels["severity"]; severity != "page" && severity != "ticket" {
				t.Errorf("%s is of severity %q", r.Alert, severity)
			}
			linked, _, _ := strings.Cut(r.Annotations["page"], "#")
			if _, err := os.Stat(filepath.Join(repository, linked)); err != nil || linked == "" || r.Annotations["summary"] == "" || r.Annotations["command"] == "" {
				t.Errorf("%s: annotations %v: %v", r.Alert, r.Annotations, err)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d alerts were found", len(seen))
	}
}
