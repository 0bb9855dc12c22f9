package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/group"
)

// use is one place where the text takes a variable from the environment of `docker compose up`.
type use struct {
	name string
	// as is how it is written, as far as it matters: "${NAME:?}".
	as string
	// required: compose does not start without a value. filled: the text has its own default.
	required, filled bool
	place            *yaml.Node
	at               string
}

// operators follow a variable's name in braces; longer ones first.
var operators = []string{":?", ":-", ":+", "?", "-", "+"}

// usesIn returns the variables of a value, also the ones in the words behind an operator. Compose
// fills those in before it decides whether it needs them. compose-go's own ExtractVariables
// distinguishes neither "${A:-}", which is filled, from "${A}", nor two uses of a name in one
// value.
func usesIn(value string) []use {
	var out []use
	for rest := value; ; {
		_, after, found := strings.Cut(rest, "$")
		if !found {
			return out
		}
		if rest = after; strings.HasPrefix(rest, "$") {
			rest = rest[1:]
			continue
		}
		inside, braced := strings.CutPrefix(rest, "{")
		end := strings.IndexFunc(inside, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(inside)
		}
		u := use{name: inside[:end]}
		if u.name == "" || unicode.IsDigit(rune(u.name[0])) {
			continue
		}
		rest, u.as = inside[end:], "$"+u.name
		if braced {
			operator := ""
			if i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(rest, o) }); i >= 0 {
				operator = operators[i]
			}
			u.as = "${" + u.name + operator + "}"
			u.required, u.filled = strings.HasSuffix(operator, "?"), operator != "" && !strings.HasSuffix(operator, "?")
		}
		out = append(out, u)
	}
}

// used notes the variables of a value.
func (l *linter) used(value string, place *yaml.Node, at string) {
	for _, u := range usesIn(value) {
		u.place, u.at = place, at
		l.uses = append(l.uses, u)
	}
}

// composeOwn is a variable that compose sets itself.
const composeOwn = "COMPOSE_PROJECT_NAME"

// supplied compares the names that the text takes from the environment with the names of the
// template's env. Another Slot's own values have the same names.
func (l *linter) supplied(env map[string]string) {
	if l.root == nil {
		return
	}
	taken := map[string]bool{}
	for _, u := range l.uses {
		taken[u.name] = true
		_, has := env[u.name]
		const fix = "add %[1]s to env, or write the value into the text"
		switch {
		case has || u.filled || u.name == composeOwn:
		case u.required:
			l.add(u.place, u.at, RuleMissing, Error, fmt.Sprintf("takes %s, and env has no %s, so that compose starts no service", u.as, u.name), fmt.Sprintf(fix, u.name))
		default:
			l.add(u.place, u.at, RuleMissing, Warning, fmt.Sprintf("takes %s, and env has no %s, so that it is empty", u.as, u.name), fmt.Sprintf(fix+", or a default: ${%[1]s:-}", u.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !taken[name] && len(l.findings) < maxFindings {
			l.findings = append(l.findings, Finding{File: specEnv, Path: name, Rule: RuleUnused, Severity: Warning,
				Message: "is taken nowhere in the compose text", Fix: fmt.Sprintf("remove it, or write ${%s} where it is needed", name)})
		}
	}
}

// EnvAdvice is the part of Advice about the names in env: names that the compose text takes and env
// does not have, and names that the text never takes.
func EnvAdvice(t group.Template) []string {
	var out []string
	for _, f := range Spec(t.Compose, t.Env) {
		if f.Severity == Warning && (f.Rule == RuleMissing || f.Rule == RuleUnused) {
			out = append(out, f.Place()+f.Text())
		}
	}
	return out
}
