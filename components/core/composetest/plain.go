// Package composetest helps tests that read the compose texts below clusters.
package composetest

import "strings"

// Plain returns a template of a compose text as it is without its options: the directives are gone,
// and so are the parts for which an option must be set. It knows the conditions of shipped texts:
// a condition "OPTION == null" and a condition that ends with ": true" hold without options, others do not.
func Plain(template string) string {
	var out strings.Builder
	var kept []bool
	for line := range strings.Lines(template) {
		directive, is := strings.CutPrefix(strings.TrimSpace(line), "%{")
		condition := strings.TrimSpace(strings.TrimRight(strings.TrimSpace(directive), "~}"))
		switch {
		case !is:
			all := true
			for _, k := range kept {
				all = all && k
			}
			if all {
				out.WriteString(line)
			}
		case strings.HasPrefix(condition, "if "):
			kept = append(kept, strings.Contains(condition, " == null") && !strings.Contains(condition, "?") || strings.HasSuffix(condition, ": true"))
		case condition == "else" && len(kept) > 0:
			kept[len(kept)-1] = !kept[len(kept)-1]
		case condition == "endif" && len(kept) > 0:
			kept = kept[:len(kept)-1]
		}
	}
	return out.String()
}
