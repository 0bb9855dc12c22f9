package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
)

// minPrefix is the minimum length of a typed Revision prefix.
const minPrefix = 4

// named is the Revision that an operator's input selects.
type named struct {
	revision string
	group    string
	// number is 0 until the leader assigns one.
	number      uint64
	composeHash string
	template    group.Template
}

// findRevision resolves an operator's input: a Revision or a prefix of one, a compose hash, #n or
// group#n. name limits it to one group; empty: any.
func findRevision(v *view.View, typed, name string) (named, error) {
	if g, n, ok := strings.Cut(typed, "#"); ok {
		if g != "" && name != "" && g != name {
			return named{}, status.Errorf(codes.InvalidArgument, "revision: %.100q is of group %q, and group is %q", typed, g, name)
		}
		return byNumber(v, n, or(g, name))
	}
	typed = strings.ToLower(strings.TrimPrefix(typed, "0x"))
	if len(typed) < minPrefix || strings.Trim(typed, "0123456789abcdef") != "" {
		return named{}, status.Errorf(codes.InvalidArgument,
			"revision: %.100q is neither a revision (or its first %d digits or more), nor a compose hash, nor #n", typed, minPrefix)
	}
	var found []named
	for _, one := range revisions(v) {
		if name != "" && one.group != name {
			continue
		}
		if strings.HasPrefix(one.revision, typed) || one.composeHash == typed {
			found = append(found, one)
		}
	}
	switch {
	case len(found) == 0:
		return named{}, status.Errorf(codes.NotFound, "no revision %.64s is known%s; `cadre group describe` and `cadre rollout status` show revisions", typed, of(name))
	case len(found) > 1:
		var texts []string
		for _, one := range found {
			texts = append(texts, fmt.Sprintf("%s of %s", one.revision, one.group))
		}
		return named{}, status.Errorf(codes.InvalidArgument, "revision: %.64s matches several: %s; type more digits, name the group, or name one of these", typed, strings.Join(texts, ", "))
	}
	return found[0], nil
}

func byNumber(v *view.View, text, name string) (named, error) {
	if name == "" {
		return named{}, status.Errorf(codes.InvalidArgument, "revision: #%.20s needs its group: numbers are each group's own", text)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return named{}, status.Errorf(codes.InvalidArgument, "revision: #%.20s is not the number of a revision, such as #7", text)
	}
	gate := v.Gate.Groups[name].Value
	digest, ok := gate.Revision(n)
	if !ok {
		return named{}, status.Errorf(codes.NotFound, "group %s has no revision #%d; its newest is #%d", name, n, gate.Last)
	}
	for _, one := range revisions(v) {
		if one.revision == digest && one.group == name {
			return one, nil
		}
	}
	// Its record is gone; its number is still known.
	return named{revision: digest, group: name, number: n}, nil
}

// revisions lists all known Revisions by group and number: every Revision with a number or a
// record, and every Revision in a spec.
func revisions(v *view.View) []named {
	var out []named
	asked := v.SpecsAsked()
	add := func(name, digest string) {
		known := func(o named) bool { return o.group == name && o.revision == digest }
		if digest == "" || slices.ContainsFunc(out, known) {
			return
		}
		one := named{revision: digest, group: name, number: v.Gate.Groups[name].Value.Number(digest)}
		if r, ok := v.Revisions[digest]; ok {
			one.composeHash, one.template = r.Value.ComposeHash, r.Value.Template
		}
		for _, spec := range asked[name] {
			if one.template.Compose == "" && spec.Revision() == digest {
				one.template = spec.Template
			}
		}
		out = append(out, one)
	}
	for name, specs := range asked {
		for _, spec := range specs {
			add(name, spec.Revision())
		}
	}
	for digest, r := range v.Revisions {
		add(r.Value.Group, digest)
	}
	for name, gate := range v.Gate.Groups {
		for digest := range gate.Value.Revisions {
			add(name, digest)
		}
	}
	slices.SortFunc(out, func(a, b named) int { return strings.Compare(a.group+a.revision, b.group+b.revision) })
	return out
}

func of(name string) string {
	if name == "" {
		return ""
	}
	return " of group " + name
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
