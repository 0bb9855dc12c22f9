package main

import (
	"context"
	"strings"
	"sync"
	"testing"
)

var library = sync.OnceValues(func() (map[string]string, error) {
	_, exports, err := list(context.Background(), "strings", "time")
	return exports, err
})

// figures counts a package of the named files.
func figures(t *testing.T, named string, files map[string]string) Figures {
	t.Helper()
	f, err := tryFigures(named, files)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tryFigures(named string, files map[string]string) (Figures, error) {
	var sources []source
	for name, text := range files {
		sources = append(sources, source{name: name, text: []byte("package p\n" + text)})
	}
	exports, err := library()
	if err != nil {
		return Figures{}, err
	}
	return count("p", named, sources, imports(exports))
}

func TestArrowsBetweenFiles(t *testing.T) {
	t.Parallel()
	const declares = "type T struct{ field int }\nfunc (T) method() {}\nfunc call() {}\nconst c = 1\nvar v T\ntype G[X any] struct{ of X }\nfunc (G[X]) take() {}\n"
	for name, c := range map[string]struct {
		uses           string
		arrows, upward int
	}{
		"nothing":            {"func f() {}", 0, 0},
		"a function":         {"func f() { call() }", 1, 0},
		"a type":             {"type U []T", 1, 0},
		"a constant":         {"const d = c", 1, 0},
		"a variable":         {"func f() { _ = v }", 1, 0},
		"three names":        {"func f() { call(); _ = c; v.method() }", 1, 0},
		"of its own":         {"func g() {}\nfunc f() { g() }", 0, 0},
		"a name hidden":      {"func f() { call := func() {}; call() }", 0, 0},
		"another package's":  {"import \"strings\"\nfunc f() { strings.Clone(\"\") }", 0, 0},
		"a generic's member": {"func f(g interface{ m() G[int] }) { g.m().take() }", 1, 0},
	} {
		got := figures(t, "", map[string]string{"a.go": declares, "b.go": c.uses})
		if got.Arrows != c.arrows || got.Upward != c.upward {
			t.Errorf("%s: %d arrows, %d upward, want %d and %d", name, got.Arrows, got.Upward, c.arrows, c.upward)
		}
	}
}

// Only a field or a method leads from c.go to a.go: b.go declares the other names of c.go.
func TestFieldsAndMethodsAreArrows(t *testing.T) {
	t.Parallel()
	const a, b = "type T struct{ field int }\nfunc (T) method() {}\n", "func get() T { return T{} }\n"
	for name, c := range map[string]struct {
		uses   string
		arrows int
	}{
		"neither":  {"func f() { get() }", 2},
		"a field":  {"func f() { _ = get().field }", 3},
		"a method": {"func f() { get().method() }", 3},
	} {
		if got := figures(t, "", map[string]string{"a.go": a, "b.go": b, "c.go": c.uses}); got.Arrows != c.arrows || got.Upward != 0 {
			t.Errorf("%s: %d arrows, %d upward, want %d and 0", name, got.Arrows, got.Upward, c.arrows)
		}
	}
}

func TestUpwardArrows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrows string // "ab": a uses b
		want   int
	}{
		"none":                       {"", 0},
		"a chain":                    {"ab bc cd", 0},
		"a chain against the names":  {"dc cb ba", 0},
		"a diamond":                  {"ab ac bd cd", 0},
		"two that use each other":    {"ab ba", 1},
		"a cycle of three":           {"ab bc ca", 1},
		"two cycles":                 {"ab ba cd dc", 2},
		"cycles with a file between": {"ab ba bc cd de ed", 2},
		// Each of a, b and d uses one file. b has the most users: at the bottom it costs one upward
		// arrow, while a there costs three.
		"the most used goes lowest": {"ab ba cb db cd dc ea eb ec", 2},
		"all with all":              {"ab ac ad ba bc bd ca cb cd da db dc", 6},
	} {
		uses := make([][]bool, 5)
		for i := range uses {
			uses[i] = make([]bool, 5)
		}
		for _, arrow := range strings.Fields(c.arrows) {
			uses[arrow[0]-'a'][arrow[1]-'a'] = true
		}
		if got := upward(uses); got != c.want {
			t.Errorf("%s: %d upward arrows, want %d", name, got, c.want)
		}
	}
}

func TestLinesAndLogic(t *testing.T) {
	t.Parallel()
	got := figures(t, "", map[string]string{
		"a.go": "// a && b || c\nvar s = \"&&\"\n\nfunc f(a, b, c bool) bool {\n\treturn a && (b || !c) && a\n}\n",
		"b.go": "func g(n int) int { return n &^ 1 | n & 2 }\n\n",
	})
	// Seven and three lines, the package clauses included; three operators.
	if got.Lines != 10 || got.Logic != 30 {
		t.Errorf("%d lines with %g operators in 100, want 10 and 30", got.Lines, got.Logic)
	}
	got = figures(t, "", map[string]string{"a.go": "func f(a, b bool) bool { return a && b }\n\n"})
	if got.Lines != 3 || got.Logic != 33.3 {
		t.Errorf("%d lines with %g operators in 100, want 3 and 33.3", got.Lines, got.Logic)
	}
}

func TestFieldsAndMethodsOfTypes(t *testing.T) {
	t.Parallel()
	got := figures(t, "Named", map[string]string{
		"a.go": "type Named struct{ Large; a, b bool; c flag; d []bool; e *int }\ntype flag bool\ntype small struct{ x int }\ntype Other = Large\n",
		"b.go": "type Large struct{ a, b, c, d, e, f, g int }\nfunc (Large) m() {}\nfunc (*Large) n() {}\nfunc (small) m() {}\ntype many interface{ a(); b(); c() }\nfunc plain() {}\n",
	})
	if got.Largest != "Large" || got.LargestFields != 7 {
		t.Errorf("largest struct %s with %d fields, want Large with 7", got.Largest, got.LargestFields)
	}
	if got.TypeFields != 6 || got.TypeBools != 3 {
		t.Errorf("the named type: %d fields, %d bools, want 6 and 3", got.TypeFields, got.TypeBools)
	}
	if got.Busiest != "Large" || got.Methods != 2 {
		t.Errorf("most methods: %s with %d, want Large with 2", got.Busiest, got.Methods)
	}
	// Of equals the first name is given, in each run.
	for range 20 {
		got = figures(t, "", map[string]string{"a.go": "type B struct{ x int }\ntype A struct{ x int }\ntype C struct{ x int }\nfunc (C) m() {}\nfunc (A) m() {}\nfunc (B) m() {}\n"})
		if got.Largest != "A" || got.Busiest != "A" {
			t.Fatalf("of equals: struct %s, methods on %s, want A", got.Largest, got.Busiest)
		}
	}
}

func TestConstantsOfTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src         string
		times, bare int
	}{
		"with a comment":         {"// c is long.\nconst c = 2 * time.Second", 1, 0},
		"without":                {"const c = time.Minute", 1, 1},
		"a comment at its end":   {"const c = time.Minute // as the platform", 1, 0},
		"a block with a comment": {"// These are times.\nconst (\n\ta = time.Second\n\t// b is longer.\n\tb = time.Minute\n\tc = time.Hour // c\n)", 3, 1},
		"typed":                  {"const c time.Duration = 5", 1, 1},
		"typed by an alias":      {"type d = time.Duration\nconst c d = 5", 1, 1},
		"converted":              {"const c = time.Duration(5)", 1, 1},
		"of another one":         {"// a is.\nconst a = time.Second\nconst b = 2 * a", 2, 1},
		"two in a line":          {"const a, b = time.Second, 5", 1, 1},
		"in a function":          {"func f() { const c = time.Second; _ = c }", 1, 1},
		"a variable":             {"var v = 5 * time.Second", 1, 1},
		"a variable by its type": {"var v time.Duration", 1, 1},
		"a list":                 {"// v are waits.\nvar v = []time.Duration{time.Second, time.Minute}", 1, 0},
		"inside of a struct":     {"type s struct{ d time.Duration }\nvar v = map[string]s{\"a\": {d: time.Second}}", 1, 1},
		"a function's variable":  {"func f() { v := time.Second; var w = time.Second; _, _ = v, w }", 0, 0},
		"held by a function":     {"var v = func() time.Duration { return time.Second }", 0, 0},
		"a number":               {"const c = 5\nvar v = int64(time.Second)", 1, 1},
		"no time":                {"const c = 5\nvar v = \"time.Second\"", 0, 0},
		"no variable's name":     {"var _ = time.Second", 0, 0},
	} {
		got := figures(t, "", map[string]string{"a.go": "import \"time\"\nvar _ time.Time\n" + c.src + "\n"})
		if got.Times != c.times || got.BareTimes != c.bare {
			t.Errorf("%s: %d constants of time, %d without a comment, want %d and %d", name, got.Times, got.BareTimes, c.times, c.bare)
		}
	}
}

func TestAnUncountableFileIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ named, src, want string }{
		"no Go":          {"", "func", "parse"},
		"no such name":   {"", "var v = missing", "undefined: missing"},
		"no such type":   {"Operation", "type Other struct{ a int }", "no struct Operation"},
		"no struct":      {"Operation", "type Operation int", "no struct Operation"},
		"in a function":  {"Operation", "func f() { type Operation struct{ a int }; _ = Operation{} }", "no struct Operation"},
		"without fields": {"Operation", "type Operation struct{}", "no struct Operation"},
	} {
		if _, err := tryFigures(c.named, map[string]string{"a.go": c.src}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
