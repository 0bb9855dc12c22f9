// Package diff compares two specs field by field, for people.
package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Kind of a change.
type Kind string

const (
	// Added fields are only in the new value.
	Added Kind = "+"
	// Removed fields are only in the old value.
	Removed Kind = "-"
	// Changed fields have another value.
	Changed Kind = "~"
)

// Change is one field that differs.
type Change struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	// Lines are the differing lines of a text of several lines, each starting with
	// '+' or '-'; Old and New are empty then.
	Lines []string `json:"lines,omitempty"`
	// Class is the cost of the change for a member, where it is known.
	Class string `json:"class,omitempty"`
}

// Compare lists the differing fields of two JSON-able values, sorted by path.
func Compare(before, after any) ([]Change, error) {
	a, err := leaves(before)
	if err != nil {
		return nil, err
	}
	b, err := leaves(after)
	if err != nil {
		return nil, err
	}
	out := []Change{}
	for path, was := range a {
		is, still := b[path]
		switch {
		case !still:
			out = append(out, Change{Kind: Removed, Path: path, Old: was})
		case was != is && strings.Contains(was+is, "\n"):
			out = append(out, Change{Kind: Changed, Path: path, Lines: Lines(was, is)})
		case was != is:
			out = append(out, Change{Kind: Changed, Path: path, Old: was, New: is})
		}
	}
	for path, is := range b {
		if _, had := a[path]; !had {
			out = append(out, Change{Kind: Added, Path: path, New: is})
		}
	}
	slices.SortFunc(out, func(x, y Change) int { return cmp.Compare(x.Path, y.Path) })
	return out, nil
}

// leaves flattens a value to path and text. Elements of a list that have a name
// are known by it, so that an insertion is not a change of all that follow.
func leaves(v any) (map[string]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	out := map[string]string{}
	flatten(out, "", tree)
	return out, nil
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			p := k
			if path != "" {
				p = path + "." + k
			}
			flatten(out, p, inner)
		}
	case []any:
		for i, inner := range v {
			key := fmt.Sprint(i)
			if m, ok := inner.(map[string]any); ok {
				if name, ok := m["name"].(string); ok {
					key = fmt.Sprintf("%q", name)
				}
			}
			flatten(out, path+"["+key+"]", inner)
		}
	case string:
		out[path] = v
	case nil:
	default:
		text, err := json.Marshal(v)
		if err == nil {
			out[path] = string(text)
		}
	}
}

// maxLines bounds the quadratic comparison; longer texts are shown as replaced.
const maxLines = 2000

// Lines is the shortest edit by lines, with one line of context around changes.
func Lines(was, is string) []string {
	a, b := strings.Split(strings.TrimSuffix(was, "\n"), "\n"), strings.Split(strings.TrimSuffix(is, "\n"), "\n")
	if len(a) > maxLines || len(b) > maxLines {
		return []string{fmt.Sprintf("-(%d lines)", len(a)), fmt.Sprintf("+(%d lines)", len(b))}
	}
	// longest[i][j] is the longest common subsequence of a[i:] and b[j:].
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	all := []string{}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, " "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			all = append(all, "-"+a[i])
			i++
		default:
			all = append(all, "+"+b[j])
			j++
		}
	}
	return near(all)
}

// near keeps changed lines and their neighbours, with "..." for omitted lines.
func near(all []string) []string {
	changed := func(k int) bool { return k >= 0 && k < len(all) && all[k][0] != ' ' }
	out := []string{}
	skipped := false
	for k, line := range all {
		if changed(k) || changed(k-1) || changed(k+1) {
			if skipped && len(out) > 0 {
				out = append(out, " ...")
			}
			skipped = false
			out = append(out, line)
			continue
		}
		skipped = true
	}
	return out
}
