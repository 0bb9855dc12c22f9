package lint

import (
	"errors"
	"slices"

	"cadre.dev/core/group"
)

// Refusal is one reason why a group's spec would be refused, found without a cluster.
type Refusal struct {
	// Path is the field, as group.Problem has it; "template.compose" for a problem of the compose
	// text.
	Path string
	// Text names the field, the place in it, the problem and the way out, in one line.
	Text string
}

// Refusals are all reasons to reject spec in any state of the cluster: the wrong fields that
// group.Decode left out, lint's errors about its compose text, and the problems of group.Validate,
// each field once. Absent fields count with their defaults. Advice has the points that an operator
// should judge.
func Refusals(spec group.Spec, wrong []group.Problem) []Refusal {
	var out []Refusal
	for _, p := range wrong {
		out = append(out, Refusal{Path: p.Path, Text: p.String()})
	}
	follows := func(r Refusal) bool {
		return slices.ContainsFunc(wrong, func(w group.Problem) bool { return group.Within(r.Path, w.Path) })
	}
	return append(out, slices.DeleteFunc(refusals(spec), follows)...)
}

func refusals(spec group.Spec) []Refusal {
	var out []Refusal
	for _, f := range Errors(Spec(spec.Template.Compose, spec.Template.Env)) {
		out = append(out, Refusal{Path: f.File, Text: f.String()})
	}
	linted := len(out) > 0
	for _, f := range Actions(spec) {
		out = append(out, Refusal{Path: f.File, Text: f.String()})
	}
	err := group.Validate(spec)
	var invalid *group.ValidationError
	if !errors.As(err, &invalid) {
		if err != nil {
			out = append(out, Refusal{Text: err.Error()})
		}
		return out
	}
	for _, p := range invalid.Problems {
		if linted && p.Path == specCompose {
			continue // lint says it too, with the column
		}
		out = append(out, Refusal{Path: p.Path, Text: p.String()})
	}
	return out
}

// Advice lists the permitted points of spec that an operator should judge, one line each.
func Advice(spec group.Spec) []string {
	out := slices.Clone(group.Warnings(spec))
	for _, f := range Spec(spec.Template.Compose, spec.Template.Env) {
		if f.Severity == Warning {
			out = append(out, f.Place()+f.Text())
		}
	}
	return out
}
