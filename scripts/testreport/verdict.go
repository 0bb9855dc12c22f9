package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

const slowest = 10

// verdict is the result of a run.
type verdict struct {
	passed, failed, skipped int // tests, without their subtests; failed also counts packages of broken
	failures                []string
	broken                  []said // packages that failed outside of tests
	flaky                   []said // tests that passed only when they were tried again, with their first output
	skips                   []string
	silent                  []string // of skips: those without a reason
	took                    []took   // packages, the slowest first
	tests                   []took   // top tests, the slowest first
}

type said struct{ name, output string }

type took struct {
	name    string
	seconds float64
}

// slowestFirst sorts by time, and by name where times are equal.
func slowestFirst(all []took) {
	slices.SortFunc(all, func(a, b took) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
}

// key names a test of a package.
type key struct{ pkg, test string }

// outcome is how a test ended over all attempts.
type outcome struct {
	key
	last   *test
	failed *attempt // the first in which it failed
	healed bool
}

// judge counts a failed test as passed only if it passed in a later attempt. A failure outside of
// tests stays a failure: another attempt of the tests does not show a repair.
func (r *run) judge() verdict {
	var v verdict
	var order []*outcome
	tests, times := map[key]*outcome{}, map[string]float64{}
	for _, a := range r.attempts {
		times[a.pkg] += a.elapsed
		if (a.result == "fail" && !a.explained()) || a.result == "" {
			v.broken = append(v.broken, said{a.pkg, r.why(a)})
		}
		for _, name := range a.order {
			k := key{a.pkg, name}
			o := tests[k]
			if o == nil {
				o = &outcome{key: k}
				tests[k] = o
				order = append(order, o)
			}
			o.add(a, a.tests[name])
			if !strings.Contains(name, "/") {
				v.tests = append(v.tests, took{a.pkg + " " + name, a.tests[name].took})
			}
		}
	}
	for _, o := range order {
		top, _, _ := strings.Cut(o.test, "/")
		// Names of subtests may differ from run to run.
		if tests[key{o.pkg, top}].healed && o.test != top {
			o.healed = true
		}
		v.count(o)
	}
	v.failed += len(v.broken)
	for pkg, seconds := range times {
		v.took = append(v.took, took{pkg, seconds})
	}
	slowestFirst(v.took)
	slowestFirst(v.tests)
	return v
}

func (o *outcome) add(a *attempt, t *test) {
	o.last = t
	switch {
	case t.result == "fail" && o.failed == nil:
		o.failed = a
	case t.result == "fail":
		o.healed = false
	case t.result == "pass" && o.failed != nil:
		o.healed = true
	}
}

// why is the output of a package that failed outside of tests.
func (r *run) why(a *attempt) string {
	var out strings.Builder
	if a.failedBuild != "" && r.builds[a.failedBuild] != nil {
		out.WriteString(r.builds[a.failedBuild].String())
	}
	for _, name := range a.order {
		if a.tests[name].result == "" {
			out.WriteString(a.tests[name].output.String())
		}
	}
	out.WriteString(a.outside.String())
	if dying := a.dying(); dying != "" {
		out.WriteString("the last that it printed:\n" + dying)
	}
	if a.result == "" {
		out.WriteString("it did not end\n")
	}
	return out.String()
}

func (v *verdict) count(o *outcome) {
	name, top := o.pkg+" "+o.test, !strings.Contains(o.test, "/")
	switch {
	case o.failed != nil && !o.healed:
		if top {
			v.failed++
		}
		v.failures = append(v.failures, name)
	case o.last.result == "skip":
		if top {
			v.skipped++
		}
		reason := o.last.reason()
		v.skips = append(v.skips, name+": "+reason)
		if reason == "" {
			v.silent = append(v.silent, name)
		}
	case o.last.result == "pass" && top:
		v.passed++
		if o.failed != nil {
			v.flaky = append(v.flaky, said{name, o.failed.said(o.test)})
		}
	}
}

func (v *verdict) ok() bool {
	return v.failed == 0 && len(v.silent) == 0 && v.passed > 0
}

func (v *verdict) print(out io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			p("\n%s\n  %s", title, strings.Join(lines, "\n  "))
		}
	}
	slow := func(title string, all []took) {
		var lines []string
		for _, t := range all[:min(slowest, len(all))] {
			lines = append(lines, fmt.Sprintf("%7.1f s  %s", t.seconds, t.name))
		}
		list(title, lines)
	}
	slow("slowest packages:", v.took)
	slow("slowest tests:", v.tests)
	list("skipped, with reasons:", v.skips)
	list("skipped without a reason, which is a failure:", v.silent)
	for _, f := range v.flaky {
		p("\nflaky: %s passed only when it was tried again; at first it said:\n%s", f.name, f.output)
	}
	list("failed:", v.failures)
	for _, b := range v.broken {
		p("\nfailed outside of tests: %s\n%s", b.name, b.output)
	}
	p("\n%d passed, %d failed, %d skipped", v.passed, v.failed, v.skipped)
}
