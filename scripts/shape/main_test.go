package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const code = "package p\n\nimport \"time\"\n\n// wait is long.\nconst wait = time.Second\n\ntype T struct{ a, b bool }\n\nfunc (t T) m() bool { return t.a && t.b }\n"

// repository makes a module with a package p and a record, and works at its root.
func repository(t *testing.T, record string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	write(t, "go.mod", "module example.org/m\n\ngo 1.26\n")
	write(t, "p/a.go", code)
	write(t, "p/b.go", "package p\n\nfunc use(t T) answer { return answer(t.m()) }\n\ntype answer bool\n")
	write(t, recorded, record)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shape runs the program and returns its output, and its error as text.
func shape(t *testing.T, args ...string) (out, failure string) {
	t.Helper()
	var b strings.Builder
	if err := run(t.Context(), args, &b); err != nil {
		failure = err.Error()
	}
	return b.String(), failure
}

func TestARecordHoldsTheFigures(t *testing.T) {
	repository(t, `[{"package": "p", "type": "T"}]`)
	if _, failure := shape(t, "-record"); failure != "" {
		t.Fatal(failure)
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(text)
	want := Figures{
		Package: "p", Type: "T", Lines: 15, Arrows: 1, Logic: 6.7, Largest: "T", LargestFields: 2,
		TypeFields: 2, TypeBools: 2, Busiest: "T", Methods: 1, Times: 1,
	}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Fatalf("recorded %+v, error %v, want %+v", got, err, want)
	}
	for _, args := range [][]string{nil, {"-exact"}} {
		if out, failure := shape(t, args...); failure != "" || (out == "") != (args != nil) {
			t.Errorf("%q after -record: %q, printed %q", args, failure, out)
		}
	}
	if out, failure := shape(t, "-json"); failure != "" || out != string(text) {
		t.Errorf("-json prints %q, error %q, want the record", out, failure)
	}

	// Tests, and files of other machines, are no production files of this one.
	write(t, "p/a_test.go", "package p\n\nconst tested = true && true\n")
	write(t, "p/a_plan9.go", "package p\n\nconst other = true && true\n")
	if out, failure := shape(t, "-exact"); failure != "" {
		t.Errorf("with a test and a file for Plan 9: %q, %q", failure, out)
	}

	write(t, "p/a.go", code+"\nfunc (t T) n() bool { return t.a || t.b }\n")
	for _, args := range [][]string{nil, {"-exact"}} {
		out, failure := shape(t, args...)
		if !strings.Contains(failure, "make it better, or run `go run ./scripts/shape -record` and give the reason in the commit") {
			t.Errorf("%q for worse figures: error %q has no way out", args, failure)
		}
		for _, line := range []string{
			"p: lines: recorded 15, now 17: worse\n",
			"p: && and || per 100 lines: recorded 6.7, now 11.8: worse\n",
			"p: methods of one type (T): recorded 1, now 2: worse\n",
		} {
			if !strings.Contains(out, line) {
				t.Errorf("%q for worse figures printed %q, without %q", args, out, line)
			}
		}
	}

	write(t, "p/a.go", strings.Replace(code, "// wait is long.\n", "// wait is\n// long.\n", 1))
	if _, failure := shape(t, "-record"); failure != "" {
		t.Fatal(failure)
	}
	write(t, "p/a.go", strings.Replace(code, "import \"time\"\n\n// wait is long.\nconst wait = time.Second\n\n", "// T is.\n//\n//\n//\n//\n//\n", 1))
	if out, failure := shape(t); failure != "" || !strings.Contains(out, "p: constants of time: recorded 1, now 0: better\n") || !strings.Contains(out, "keep it so with") {
		t.Errorf("a better figure: error %q, printed %q", failure, out)
	}
	if _, failure := shape(t, "-exact"); !strings.Contains(failure, "a figure is better than recorded") {
		t.Errorf("-exact for a better figure: error %q", failure)
	}
}

func TestARecordThatCannotHoldIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"no list":         {`{}`, "cannot unmarshal"},
		"an empty list":   {`[]`, "names no package"},
		"unknown figure":  {`[{"package": "p", "speed": 1}]`, `unknown field "speed"`},
		"no package":      {`[{"type": "T"}]`, "name each package once"},
		"a package twice": {`[{"package": "p"}, {"package": "p"}]`, "name each package once"},
		"more text":       {`[{"package": "p"}] [`, "delete it"},
		"a package gone":  {`[{"package": "q"}]`, "name in scripts/shape/recorded.json the one that took its place"},
		"only tests":      {`[{"package": "tests"}]`, "no production file"},
		"a type gone":     {`[{"package": "p", "type": "Operation"}]`, "p has no struct Operation"},
	} {
		t.Run(name, func(t *testing.T) {
			repository(t, c.record)
			write(t, "tests/a_test.go", "package tests\n")
			for _, args := range [][]string{nil, {"-record"}} {
				if _, failure := shape(t, args...); !strings.Contains(failure, c.want) {
					t.Errorf("%q: error %q, want one with %q", args, failure, c.want)
				}
			}
		})
	}
}

func TestArgumentsThatContradictAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-exact", "-record"}, {"components/core/rollout"}} {
		if _, failure := shape(t, args...); !strings.Contains(failure, "or nothing") {
			t.Errorf("%q: error %q", args, failure)
		}
	}
}

func TestEachFigureIsCompared(t *testing.T) {
	t.Parallel()
	was := Figures{Package: "p", Type: "T", Largest: "T", Busiest: "T"}
	for name, change := range map[string]func(*Figures){
		"lines":                               func(f *Figures) { f.Lines++ },
		"arrows between files":                func(f *Figures) { f.Arrows++ },
		"upward arrows":                       func(f *Figures) { f.Upward++ },
		"&& and || per 100 lines":             func(f *Figures) { f.Logic += 0.1 },
		"fields of the largest struct (T)":    func(f *Figures) { f.LargestFields++ },
		"fields of the named type (T)":        func(f *Figures) { f.TypeFields++ },
		"bool fields of the named type (T)":   func(f *Figures) { f.TypeBools++ },
		"methods of one type (T)":             func(f *Figures) { f.Methods++ },
		"constants of time":                   func(f *Figures) { f.Times++ },
		"constants of time without a comment": func(f *Figures) { f.BareTimes++ },
	} {
		is := was
		change(&is)
		var out strings.Builder
		if err := compare(&out, []Figures{was}, []Figures{is}, false); err == nil || !strings.HasPrefix(out.String(), "p: "+name+": recorded 0, now ") {
			t.Errorf("%s: error %v, printed %q", name, err, out.String())
		}
		out.Reset()
		if err := compare(&out, []Figures{is}, []Figures{was}, false); err != nil || !strings.Contains(out.String(), ": better\n") {
			t.Errorf("%s, better: error %v, printed %q", name, err, out.String())
		}
	}
	var out strings.Builder
	finer := was
	finer.Logic = 0.04
	if err := compare(&out, []Figures{was}, []Figures{finer}, false); err != nil {
		t.Errorf("a ratio that differs by less than a decimal: %v", err)
	}
	renamed := was
	renamed.Busiest = "U"
	if err := compare(&out, []Figures{was}, []Figures{renamed}, false); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := compare(&out, []Figures{was}, []Figures{renamed}, true); err == nil || !strings.Contains(err.Error(), "another type") {
		t.Errorf("another name, exactly: %v", err)
	}
}
