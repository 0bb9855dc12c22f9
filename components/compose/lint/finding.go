package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity of a finding.
type Severity string

const (
	// Error rejects the text: its hash would not fix the code that runs.
	Error Severity = "error"
	// Warning is for a person to judge.
	Warning Severity = "warning"
)

// Rule is the id of a rule; docs/guides/compose.md explains each.
type Rule string

const (
	RuleSize       Rule = "size"
	RuleText       Rule = "text"
	RuleYAML       Rule = "yaml"
	RuleDuplicate  Rule = "yaml-duplicate"
	RuleMerge      Rule = "yaml-merge"
	RuleAlias      Rule = "yaml-alias"
	RuleTag        Rule = "yaml-tag"
	RuleAmbiguous  Rule = "yaml-ambiguous"
	RuleStyle      Rule = "yaml-style"
	RuleSchema     Rule = "schema"
	RuleReaders    Rule = "readers-differ"
	RuleImage      Rule = "image-not-pinned"
	RuleBuild      Rule = "build"
	RulePull       Rule = "pull-policy"
	RuleTemplate   Rule = "template-image"
	RuleVariable   Rule = "variable"
	RuleDollar     Rule = "lone-dollar"
	RuleEnvName    Rule = "env-name"
	RuleMissing    Rule = "env-missing"
	RuleUnused     Rule = "env-unused"
	RuleUnmeasured Rule = "not-measured"
	RuleGuest      Rule = "guest-socket"
	RuleEngine     Rule = "engine-socket"
	RuleHostMount  Rule = "host-mount"
	RulePrivileged Rule = "privileged"
	RuleNamespace  Rule = "host-namespace"
	RuleCapability Rule = "capability"
	RuleDevice     Rule = "device"
	RuleSecurity   Rule = "security-opt"
	RuleConsul     Rule = "consul-exposed"
	RuleSecret     Rule = "secret-literal"
	RuleTrust      Rule = "trust-not-literal"
	RuleSimulated  Rule = "trust-simulated"
	RuleAgent      Rule = "no-agent"
	RuleExec       Rule = "exec"
	RuleProfile    Rule = "profile"
	RuleBudget     Rule = "boot-budget"
	RuleRestart    Rule = "restart-policy"
	RuleMark       Rule = "revision-mark"
	RuleObsolete   Rule = "obsolete"
	RuleAppCompose Rule = "app-compose"
)

// Rules are all rules, in the order of the documentation.
func Rules() []Rule {
	return []Rule{
		RuleImage, RuleBuild, RuleTemplate, RulePull, RuleVariable, RuleDollar, RuleEnvName, RuleMissing, RuleUnused, RuleUnmeasured,
		RuleGuest, RuleEngine, RuleHostMount, RulePrivileged, RuleNamespace, RuleCapability, RuleDevice, RuleSecurity,
		RuleTrust, RuleSimulated, RuleAgent, RuleExec, RuleConsul, RuleSecret, RuleProfile, RuleBudget, RuleRestart, RuleMark, RuleObsolete, RuleAppCompose,
		RuleYAML, RuleDuplicate, RuleMerge, RuleAlias, RuleTag, RuleAmbiguous, RuleStyle, RuleSchema, RuleReaders, RuleText, RuleSize,
	}
}

// Finding is one thing that a rule found. Line and Column count from 1, columns
// in characters; both are 0 where the finding is about no place of the text.
type Finding struct {
	// File is filled in by callers that read several.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Path is where in the document, e.g. "services.web.image".
	Path     string   `json:"path,omitempty"`
	Rule     Rule     `json:"rule"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Fix is the way out.
	Fix string `json:"fix"`
}

// String is the finding in one line: place, severity, rule, problem, way out.
func (f Finding) String() string {
	return fmt.Sprintf("%s%s: %s", f.Place(), f.Severity, f.Text())
}

// Place is "file:line:column: ", as far as they are known.
func (f Finding) Place() string {
	place := ""
	if f.File != "" {
		place = f.File + ":"
	}
	if f.Line > 0 {
		place += fmt.Sprintf("%d:%d:", f.Line, f.Column)
	}
	if place != "" {
		place += " "
	}
	return place
}

// Text is the finding without its place and severity.
func (f Finding) Text() string {
	text := f.Subject()
	if f.Fix != "" {
		text += ": " + f.Fix
	}
	return fmt.Sprintf("%s [%s]", text, f.Rule)
}

// Subject is the place in the document, and the problem.
func (f Finding) Subject() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + " " + f.Message
}

// Code is the refusal code of the finding's rule: IMAGE_NOT_PINNED where the code that runs could
// be exchanged, EXEC_FORBIDDEN for commands, else COMPOSE_FORBIDDEN.
func (f Finding) Code() string {
	switch f.Rule {
	case RuleImage, RuleBuild, RuleTemplate, RulePull, RuleVariable, RuleUnmeasured:
		return "IMAGE_NOT_PINNED"
	case RuleExec:
		return "EXEC_FORBIDDEN"
	default:
		return "COMPOSE_FORBIDDEN"
	}
}

// Errors are the findings that refuse the text.
func Errors(findings []Finding) []Finding {
	var out []Finding
	for _, f := range findings {
		if f.Severity == Error {
			out = append(out, f)
		}
	}
	return out
}

// maxFindings bounds the output for hostile input.
const maxFindings = 200

// order sorts findings by place. Content that an alias brings into several services is one finding,
// at the anchor.
func order(findings []Finding) []Finding {
	byPlace := func(a, b Finding) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, strings.Compare(string(a.Rule), string(b.Rule)), strings.Compare(a.Message, b.Message))
	}
	slices.SortStableFunc(findings, byPlace)
	return slices.CompactFunc(findings, func(a, b Finding) bool { return byPlace(a, b) == 0 })
}
