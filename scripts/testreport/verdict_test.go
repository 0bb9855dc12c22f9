package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// attemptOf writes the events of one start of package p: "TestX fail", "TestX fail text".
// A test without a result began only. The package ends with end, unless that is "".
func attemptOf(end string, tests ...string) string {
	var b strings.Builder
	line := func(action, rest string) {
		b.WriteString(`{"Action":"` + action + `","Package":"p"` + rest + "}\n")
	}
	line("start", "")
	for _, t := range tests {
		name, rest, _ := strings.Cut(t, " ")
		result, text, _ := strings.Cut(rest, " ")
		at := `,"Test":"` + name + `"`
		line("run", at)
		line("output", at+`,"Output":"=== RUN   `+name+`\n"`)
		if text != "" {
			line("output", at+`,"Output":"    x_test.go:7: `+text+`\n"`)
		}
		if result != "" {
			line("output", at+`,"Output":"--- `+strings.ToUpper(result)+`: `+name+` (0.00s)\n"`)
			line(result, at+`,"Elapsed":0`)
		}
	}
	line("output", `,"Output":"the end of p\n"`)
	if end != "" {
		line(end, `,"Elapsed":1.5`)
	}
	return b.String()
}

func judged(t *testing.T, events string) verdict {
	t.Helper()
	var r run
	if err := r.read("", strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	return r.judge()
}

func TestVerdict(t *testing.T) {
	built := `{"ImportPath":"q [q.test]","Action":"build-output","Output":"q.go:1:1: no such thing\n"}
{"ImportPath":"q [q.test]","Action":"build-fail"}
{"Action":"start","Package":"q"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","Elapsed":0,"FailedBuild":"q [q.test]"}
`
	for name, c := range map[string]struct {
		events                  string
		passed, failed, skipped int
		ok                      bool
		prints, not             string
	}{
		"all pass":                      {attemptOf("pass", "TestA pass", "TestA/x pass", "TestB pass"), 2, 0, 0, true, "slowest packages:\n      1.5 s  p\n", "skipped,"},
		"a test fails":                  {attemptOf("fail", "TestA fail oh", "TestA/x fail", "TestB pass"), 1, 1, 0, false, "failed:\n  p TestA\n  p TestA/x\n", "outside"},
		"it fails both times":           {attemptOf("fail", "TestA fail") + attemptOf("fail", "TestA fail"), 0, 1, 0, false, "failed:\n  p TestA\n", "flaky"},
		"it passes the second time":     {attemptOf("fail", "TestA fail", "TestA/x fail cold", "TestB pass") + attemptOf("pass", "TestA pass", "TestA/x pass"), 2, 0, 0, true, "flaky: p TestA passed only", "failed:"},
		"the first output is kept":      {attemptOf("fail", "TestA fail", "TestA/x fail cold") + attemptOf("pass", "TestA pass warm"), 1, 0, 0, true, "x_test.go:7: cold\n", "warm"},
		"it is skipped the second time": {attemptOf("fail", "TestA fail") + attemptOf("pass", "TestA skip late"), 0, 1, 0, false, "failed:\n  p TestA\n", "flaky"},
		"skips tell why":                {attemptOf("pass", "TestA pass", "TestA/x skip no disk", "TestB skip no root"), 1, 0, 1, true, "skipped, with reasons:\n  p TestA/x: no disk\n  p TestB: no root\n", "failure"},
		"a skip does not":               {attemptOf("pass", "TestA pass", "TestB skip"), 1, 0, 1, false, "which is a failure:\n  p TestB\n", "failed:"},
		"a subtest's skip does not":     {attemptOf("pass", "TestA pass", "TestA/x skip"), 1, 0, 0, false, "which is a failure:\n  p TestA/x\n", "failed:"},
		"leaks after the last test":     {attemptOf("fail", "TestA pass"), 1, 1, 0, false, "failed outside of tests: p\nthe end of p\n", "flaky"},
		// gotestsum tries a TestMain again, which runs nothing.
		"a leak is not healed":    {attemptOf("fail", "TestA pass") + attemptOf("pass"), 1, 1, 0, false, "failed outside of tests: p", "flaky"},
		"a test ends the program": {attemptOf("fail", "TestA fail", "TestB") + attemptOf("pass", "TestA pass"), 1, 1, 0, false, "failed outside of tests: p", "failed:\n"},
		"a panic is booked to a test that passed": {
			strings.Replace(attemptOf("fail", "TestB", "TestA pass"), "--- PASS: TestA (0.00s)", "panic: too late", 1),
			1, 1, 0, false, "the last that it printed:\npanic: too late\n", "flaky",
		},
		"the program never ends":       {attemptOf("", "TestA pass"), 1, 1, 0, false, "it did not end", "flaky"},
		"a build fails":                {attemptOf("pass", "TestA pass") + built, 1, 1, 0, false, "failed outside of tests: q\nq.go:1:1: no such thing\n", "flaky"},
		"nothing was run":              {"", 0, 0, 0, false, "0 passed, 0 failed, 0 skipped", "slowest"},
		"a package without test files": {attemptOf("skip") + attemptOf("pass", "TestA pass"), 1, 0, 0, true, "1 passed", "skipped,"},
	} {
		t.Run(name, func(t *testing.T) {
			v := judged(t, c.events)
			if v.passed != c.passed || v.failed != c.failed || v.skipped != c.skipped || v.ok() != c.ok {
				t.Errorf("got %d passed, %d failed, %d skipped, ok %v; want %d, %d, %d, %v",
					v.passed, v.failed, v.skipped, v.ok(), c.passed, c.failed, c.skipped, c.ok)
			}
			var out bytes.Buffer
			v.print(&out)
			if !strings.Contains(out.String(), c.prints) || strings.Contains(out.String(), c.not) {
				t.Errorf("want %q and not %q in:\n%s", c.prints, c.not, &out)
			}
		})
	}
}

func TestVerdictEndsWithTheCounts(t *testing.T) {
	var out bytes.Buffer
	v := judged(t, attemptOf("fail", "TestA fail", "TestB skip why", "TestC pass"))
	v.print(&out)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if got := lines[len(lines)-2:]; !slices.Equal(got, []string{"", "1 passed, 1 failed, 1 skipped"}) {
		t.Errorf("the last lines are %q", got)
	}
}

func TestTenSlowestPackagesAndTests(t *testing.T) {
	var b strings.Builder
	for _, p := range "abcdefghijklm" {
		b.WriteString(strings.ReplaceAll(attemptOf("pass", "TestA pass"), `"p"`, `"`+string(p)+`"`))
	}
	// A package's attempts count together.
	b.WriteString(strings.ReplaceAll(attemptOf("pass", "TestA pass"), `"p"`, `"m"`))
	v := judged(t, b.String())
	var out bytes.Buffer
	v.print(&out)
	if n := strings.Count(out.String(), " s  "); n != 2*slowest || !strings.Contains(out.String(), "slowest packages:\n      3.0 s  m\n") {
		t.Errorf("%d packages and tests:\n%s", n, &out)
	}
}

// TestNoLaneMendsAnother: a failure with the race detector counts, also when the test passes
// without it.
func TestNoLaneMendsAnother(t *testing.T) {
	dir := t.TempDir()
	race, fast := filepath.Join(dir, "test-race.json"), filepath.Join(dir, "test-fast.json")
	for path, events := range map[string]string{race: attemptOf("fail", "TestA fail"), fast: attemptOf("pass", "TestA pass")} {
		if err := os.WriteFile(path, []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := report("", []string{race, fast}); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestARunLongerThanItsBudgetFails(t *testing.T) {
	for _, c := range []struct {
		took, budget time.Duration
		ok           bool
	}{
		{time.Hour, 0, true}, {59 * time.Minute, time.Hour, true}, {time.Hour, time.Hour, true}, {time.Hour + time.Second, time.Hour, false},
	} {
		err := within(c.took, c.budget)
		if (err == nil) != c.ok {
			t.Errorf("%v of %v: %v", c.took, c.budget, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "took 1h0m1s") || !strings.Contains(err.Error(), "gives them 1h0m0s")) {
			t.Errorf("the error does not name both times: %v", err)
		}
	}
}

func TestReportReadsFilesAndKeepsTheLog(t *testing.T) {
	dir := t.TempDir()
	good, cut, log := filepath.Join(dir, "good.json"), filepath.Join(dir, "cut.json"), filepath.Join(dir, "test.log")
	events := attemptOf("pass", "TestA pass hello")
	for path, data := range map[string]string{good: events, cut: events[:len(events)-4]} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := report(log, []string{good}); !ok || err != nil {
		t.Errorf("a good run: %v, %v", ok, err)
	}
	if got, err := os.ReadFile(log); err != nil || !strings.Contains(string(got), "x_test.go:7: hello\n--- PASS") {
		t.Errorf("the log is %q, %v", got, err)
	}
	for _, paths := range [][]string{{good, cut}, {filepath.Join(dir, "absent.json")}} {
		if ok, err := report("", paths); ok || err == nil {
			t.Errorf("%v: %v, %v", paths, ok, err)
		}
	}
}
