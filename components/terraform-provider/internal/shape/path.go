package shape

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
)

// Path turns the path of a problem, such as lifecycle_hook["drain"].http.port, into Terraform's,
// which finds repeated blocks by their position. tree is the judged value. The path ends where the
// two differ, at the earliest at the first block; false when no block matches.
func Path(fields []Field, tree map[string]any, problem string) (path.Path, bool) {
	at, found := path.Empty(), false
	var here any = tree
	var field Field
	for _, s := range steps(problem) {
		switch {
		case s.name != "":
			next, ok := Find(fields, s.name)
			if !ok {
				return at, found
			}
			field, fields = next, next.Fields
			at, found = at.AtName(s.name), true
			here = block(here)[s.name]
		case field.Kind == Blocks:
			n := named(list(here), s.key)
			if n < 0 {
				return at, found
			}
			at, here = at.AtListIndex(n), list(here)[n]
		case field.Kind == TextMap:
			return at.AtMapKey(s.key), found
		case field.Kind == Texts:
			if n, err := strconv.Atoi(s.key); err == nil && n < len(list(here)) {
				return at.AtListIndex(n), found
			}
			return at, found
		}
	}
	return at, found
}

func named(items []any, name string) int {
	for i, one := range items {
		if label(block(one)) == name {
			return i
		}
	}
	return -1
}

// label distinguishes repeated blocks: their name or their ordinal.
func label(item map[string]any) string {
	for _, by := range []string{"name", "ordinal"} {
		if v, ok := item[by]; ok {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// step is a name, or the key behind it: ["drain"] or [0].
type step struct{ name, key string }

func steps(problem string) []step {
	var out []step
	for problem != "" {
		if problem[0] != '[' {
			end := strings.IndexAny(problem, ".[")
			if end < 0 {
				end = len(problem)
			}
			out = append(out, step{name: problem[:end]})
			problem = strings.TrimPrefix(problem[end:], ".")
			continue
		}
		key, rest := bracket(problem)
		out = append(out, step{key: key})
		problem = strings.TrimPrefix(rest, ".")
	}
	return out
}

// bracket reads ["a key"] or [0] at the beginning of text.
func bracket(text string) (key, rest string) {
	if quoted, err := strconv.QuotedPrefix(text[1:]); err == nil {
		key, _ = strconv.Unquote(quoted)
		return key, strings.TrimPrefix(text[1+len(quoted):], "]")
	}
	key, rest, _ = strings.Cut(text[1:], "]")
	return key, rest
}
