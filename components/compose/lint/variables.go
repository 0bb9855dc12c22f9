package lint

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/appcompose"
)

// variable returns the first variable of a value as it is written, "" if there is
// none. "$$" is compose's escape for one dollar. Letters are taken widely, since
// compose-go folds case by Unicode.
func variable(value string) string {
	for i := 0; i < len(value); i++ {
		if value[i] != '$' {
			continue
		}
		rest := value[i+1:]
		switch r, _ := utf8.DecodeRuneInString(rest); {
		case r == '$':
			i++
		case r == '{':
			if end := strings.IndexByte(rest, '}'); end >= 0 {
				return value[i : i+1+end+1]
			}
			return value[i:]
		case r == '_' || unicode.IsLetter(r):
			end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if end < 0 {
				end = len(rest)
			}
			return value[i : i+1+end]
		}
	}
	return ""
}

// loneDollar reports a dollar that compose leaves alone and others refuse.
func loneDollar(value string) bool {
	value = strings.ReplaceAll(value, "$$", "")
	return strings.ContainsRune(value, '$') && variable(value) == ""
}

// names are the words of value, among them every variable that it could take.
func names(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// freeKeys of a service may take variables: they size and name things, and decide neither the code
// that runs, nor its user, nor its access.
var freeKeys = []string{
	"mem_limit", "mem_reservation", "memswap_limit", "cpus", "cpu_shares", "cpuset", "pids_limit", "shm_size",
	"hostname", "domainname", "container_name", "labels", "annotations",
}

// variables refuses a variable everywhere but where it can only locate things:
// values of environment, and the keys above.
func (l *linter) variables(value string, place *yaml.Node, at path) {
	found := variable(value)
	if found == "" {
		if loneDollar(value) {
			l.add(place, at.String(), RuleDollar, Warning, "has a single $ that starts no variable", "write $$ for a dollar")
		}
		return
	}
	if len(at) == 3 && at[0] == "services" && at[2] == "image" {
		return // said by the rule for images
	}
	if len(at) > 0 && strings.HasPrefix(at[0], "x-") {
		return // without effect; where it is used, the alias is checked
	}
	if len(at) > 3 && at[0] == "services" && at[2] == "environment" {
		l.envVariable(value, found, place, at)
		return
	}
	if len(at) > 2 && at[0] == "services" && slices.Contains(freeKeys, at[2]) {
		return
	}
	l.add(place, at.String(), RuleVariable, Error,
		fmt.Sprintf("takes %s from the environment, which is not measured", found), "write the value out, or $$ for a dollar")
}

// envVariable allows `NAME: ${X}` and `- NAME=${X}` for names that steer no code.
func (l *linter) envVariable(value, found string, place *yaml.Node, at path) {
	name := at[3]
	if len(at) == 4 && isIndex(name) {
		var rest string
		if name, rest, _ = strings.Cut(value, "="); variable(name) != "" || rest == "" {
			l.add(place, at.String(), RuleVariable, Error, fmt.Sprintf("takes the name of a variable from %s", found), "write the name out")
			return
		}
	}
	if appcompose.SteersContainer(name) {
		l.add(place, at.String(), RuleVariable, Error, fmt.Sprintf("takes %s from the environment, which is not measured, and %s", found, steers(name)), "write the value out")
	}
}

func steers(name string) string {
	return name + " decides which code a process runs, or whom it believes"
}

func isIndex(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// EnvNames checks the names that the encrypted environment may set (allowed_envs
// of app-compose.json, env of a group's template): values there are not measured.
func EnvNames(list []string) []Finding {
	var out []Finding
	for _, name := range list {
		if problem := appcompose.EnvNameProblem(name); problem != "" {
			out = append(out, Finding{
				Path: name, Rule: RuleEnvName, Severity: Error, Message: problem,
				Fix: appcompose.EnvNameFix(name),
			})
		}
	}
	return out
}
