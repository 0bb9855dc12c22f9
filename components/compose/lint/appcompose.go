package lint

import (
	"strings"

	"cadre.dev/core/appcompose"
)

// composeField is where app-compose.json holds the compose text; findings inside
// have its name as File suffix.
const composeField = "docker_compose_file"

// AppCompose lints app-compose.json by the closed list of package appcompose, which
// admission and agents judge by, and the compose text in it. Findings of the compose
// text have File "docker_compose_file" and its lines.
func AppCompose(raw []byte, rules appcompose.Rules) []Finding {
	var out []Finding
	doc, err := appcompose.Read(raw)
	if err != nil {
		return []Finding{{Rule: RuleAppCompose, Severity: Error, Message: err.Error()}}
	}
	_, problems := appcompose.Judge(raw, rules)
	for _, p := range problems {
		f := Finding{Path: p.Path, Rule: RuleAppCompose, Severity: Error, Message: p.Message, Fix: p.Fix}
		if strings.HasPrefix(p.Path, "allowed_envs[") {
			f.Rule = RuleEnvName
		}
		out = append(out, f)
	}
	for _, odd := range appcompose.Oddities(raw) {
		what, fix, _ := strings.Cut(odd, ": ")
		out = append(out, Finding{Rule: RuleAppCompose, Severity: Warning, Message: what, Fix: fix})
	}
	if doc.DockerComposeFile == "" {
		return out
	}
	for _, f := range Lint([]byte(doc.DockerComposeFile)) {
		f.File = composeField
		out = append(out, f)
	}
	return out
}
