package lint

import (
	"maps"
	"slices"
)

const (
	specCompose = "template.compose"
	specEnv     = "template.env"
)

// Spec lints the compose text and the names of the encrypted environment of a group's template, and
// compares the names that each takes and provides. Values of env do not count. Each finding has the
// field in File: "template.compose" or "template.env", so that it reads "template.compose:12:5:
// ...".
func Spec(compose string, env map[string]string) []Finding {
	l := linted(compose)
	l.supplied(env)
	out := order(l.findings)
	for i := range out {
		if out[i].File == "" {
			out[i].File = specCompose
		}
	}
	for _, f := range EnvNames(slices.Sorted(maps.Keys(env))) {
		f.File = specEnv
		out = append(out, f)
	}
	return out
}
