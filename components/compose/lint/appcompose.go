package lint

import (
	"strings"

	"cadre.dev/attest"
	"cadre.dev/compose/appcompose"
)

// composeField is where app-compose.json holds the compose text; findings inside
// have its name as File suffix.
const composeField = "docker_compose_file"

// AppCompose lints app-compose.json: the settings that admission would refuse, the
// names that the environment may set, and the compose text in it. scripts are the
// SHA-256 digests, hex, of pre-launch scripts that are known. Findings of the
// compose text have File "docker_compose_file" and its lines.
func AppCompose(raw []byte, scripts []string) []Finding {
	var out []Finding
	add := func(at string, severity Severity, message, fix string) {
		out = append(out, Finding{Path: at, Rule: RuleAppCompose, Severity: severity, Message: message, Fix: fix})
	}
	doc, err := appcompose.Read(raw)
	if err != nil {
		add("", Error, err.Error(), "")
		return out
	}
	text, problem := attest.CheckAppCompose(raw, scripts)
	for p := range strings.SplitSeq(problem, "; ") {
		if p != "" {
			add("", Error, p, "admission refuses it")
		}
	}
	if text == "" {
		text = doc.DockerComposeFile
	}
	for _, odd := range appcompose.Oddities(raw) {
		what, fix, _ := strings.Cut(odd, ": ")
		add("", Warning, what, fix)
	}
	for _, f := range EnvNames(doc.AllowedEnvs) {
		f.Path = "allowed_envs." + f.Path
		out = append(out, f)
	}
	if text == "" {
		return out
	}
	for _, f := range Lint([]byte(text)) {
		f.File = composeField
		out = append(out, f)
	}
	return out
}
