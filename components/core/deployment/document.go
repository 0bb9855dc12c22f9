package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/route"
)

// Document is the text of an operator: the groups of a deployment, and labels.
type Document struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Groups by the order of the file.
	Groups []group.Spec `json:"group"`
}

// In returns the problems of one group with paths that begin with the group: group["web"].replicas.
func In(name string, problems []group.Problem) []group.Problem {
	out := slices.Clone(problems)
	for i, p := range out {
		out[i].Path = fmt.Sprintf("group[%q]", name)
		if p.Path != "" {
			out[i].Path += "." + p.Path
		}
	}
	return out
}

// Validate returns all problems of a document. judge returns those of one group, for callers that know
// more than the document; nil: group.Validate. others are the groups of the cluster with the groups that each is
// `after`; nil: they are unknown, and no name is missed.
func Validate(d Document, judge func(group.Spec) error, others map[string][]string) []group.Problem {
	if judge == nil {
		judge = group.Validate
	}
	out := d.shape()
	own, after := map[string]group.Spec{}, map[string][]string{}
	maps.Copy(after, others) // a cycle may go through a group outside of the document
	for _, spec := range d.Groups {
		own[spec.Name], after[spec.Name] = spec, spec.After
	}
	for _, spec := range d.Groups {
		var invalid *group.ValidationError
		if err := judge(spec); errors.As(err, &invalid) {
			out = append(out, In(spec.Name, invalid.Problems)...)
		} else if err != nil {
			out = append(out, In(spec.Name, []group.Problem{{Message: err.Error()}})...)
		}
		out = append(out, In(spec.Name, route.Conflicts(spec, own))...)
		if p, closes := group.CycleProblem(spec, after); closes {
			if in := In(spec.Name, []group.Problem{p}); !slices.Contains(out, in[0]) {
				out = append(out, in...)
			}
		}
		if others != nil {
			out = append(out, In(spec.Name, unknown(spec, own, others))...)
		}
	}
	return out
}

// labelValue is the grammar of a label's value: a record of every kept version has it.
var labelValue = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._:/@+-]{0,%d}$`, MaxLabelBytes))

// TooMany returns the problems of the numbers of labels and groups, which a caller judges before it reads the groups.
func TooMany(labels, groups int) (out []group.Problem) {
	if labels > MaxLabels {
		out = append(out, group.Problem{Path: "labels", Message: fmt.Sprintf("there are %d, at most %d are allowed", labels, MaxLabels)})
	}
	if groups > MaxGroups {
		out = append(out, group.Problem{Path: "group", Message: fmt.Sprintf("there are %d, at most %d are allowed: one transaction of Consul writes them all; split the document", groups, MaxGroups)})
	}
	return out
}

// shape validates the document's own fields.
func (d Document) shape() (out []group.Problem) {
	add := func(path, format string, args ...any) {
		out = append(out, group.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if p := group.NameProblem(d.Name); p != "" {
		add("name", "%q %s", d.Name, p)
	}
	out = append(out, TooMany(len(d.Labels), len(d.Groups))...)
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		if p := group.NameProblem(name); p != "" {
			add(fmt.Sprintf("labels[%q]", name), "the name %s", p)
		}
		if !labelValue.MatchString(d.Labels[name]) {
			add(fmt.Sprintf("labels[%q]", name), "%.80q is no value: letters, digits and . _ : / @ + -, at most %d bytes", d.Labels[name], MaxLabelBytes)
		}
	}
	if len(d.Groups) == 0 {
		add("group", `is missing: write group "name" { ... } for each group of the deployment`)
	}
	size, seen := 0, map[string]bool{}
	for _, spec := range d.Groups {
		if text, err := json.Marshal(spec); err == nil {
			size += len(text)
		}
		if seen[spec.Name] {
			add(fmt.Sprintf("group[%q]", spec.Name), "stands twice: keep one")
		}
		seen[spec.Name] = true
	}
	if size > MaxBytes {
		add("group", "the specs have %d bytes together, at most %d are allowed: one transaction of Consul writes them all; split the document", size, MaxBytes)
	}
	return out
}

// unknown returns the names of groups that spec refers to and that exist neither in the document nor in
// the cluster: a misspelt name would let no group in, and no answer would report it.
func unknown(spec group.Spec, own map[string]group.Spec, others map[string][]string) (out []group.Problem) {
	check := func(path, name string) {
		_, is := own[name]
		if _, exists := others[name]; !is && !exists && name != group.Coordinators {
			out = append(out, group.Problem{Path: path, Message: fmt.Sprintf("there is no group %q in the document or the cluster: correct the name, or take it out until the group exists", name)})
		}
	}
	for _, b := range spec.Backends {
		for i, name := range b.Allow {
			check(fmt.Sprintf("backend[%q].allow[%d]", b.Name, i), name)
		}
	}
	for i, name := range spec.After {
		check(fmt.Sprintf("after[%d]", i), name)
	}
	for i, name := range spec.Placement.With {
		check(fmt.Sprintf("placement.with[%d]", i), name)
	}
	for i, name := range spec.Placement.NotWith {
		check(fmt.Sprintf("placement.not_with[%d]", i), name)
	}
	return out
}

// Error lists problems of a document, one a line.
func Error(name string, problems []group.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	text := fmt.Sprintf("deployment %q: %d problem(s)", name, len(problems))
	for _, p := range problems {
		text += "\n  " + p.String()
	}
	return errors.New(text)
}
