package lint

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/group"
)

// MaxSize bounds a compose text: dstack takes an app-compose.json of at most so
// many bytes, which contains it.
const MaxSize = 256 << 10

// Lint reports every problem of a rendered compose text, in the order of the text; nil for none. It
// reads nothing but text and never fails: an unreadable part is a finding. Safe for concurrent use.
func Lint(text []byte) []Finding { return order(linted(string(text)).findings) }

func linted(text string) *linter {
	l := &linter{text: text, errorLines: map[int]bool{}}
	l.run()
	return l
}

type linter struct {
	text     string
	root     *yaml.Node
	services []service
	findings []Finding
	// errorLines have an error already: the line scanner need not repeat it.
	errorLines map[int]bool
	errors     int
	// uses are the variables that the text takes.
	uses []use
}

// service is one entry of "services" that is a mapping.
type service struct {
	name string
	node *yaml.Node
}

// cadreNames are the services that may hold the guest agent's socket: the agent
// in a workload CVM, the coordinator in its own.
var cadreNames = []string{"cadre", "coordinator"}

func (s service) cadre() bool { return s.name == cadreNames[0] || s.name == cadreNames[1] }

// path names a key of the service.
func (s service) path(key string) string { return "services." + s.name + "." + key }

func (l *linter) run() {
	if len(l.text) > MaxSize {
		l.addAt(1, 1, "", RuleSize, Error, fmt.Sprintf("has %d bytes, at most %d are allowed", len(l.text), MaxSize), "move large content into an image")
		return
	}
	if !utf8.ValidString(l.text) {
		line, column := badUTF8(l.text)
		l.addAt(line, column, "", RuleText, Error, "is not UTF-8", "save the file as UTF-8")
		return
	}
	images, problems := group.ComposeImages(l.text)
	if l.read(); l.root != nil {
		l.tree()
		l.readServices()
		l.topLevel()
		for _, s := range l.services {
			for _, rule := range serviceRules {
				rule(l, s)
			}
		}
		l.cadreService()
		l.commands()
	}
	l.scanner(images, problems)
	l.templateHint()
	if l.errors == 0 && l.root != nil {
		l.project()
	}
}

// add notes a finding at a node.
func (l *linter) add(n *yaml.Node, path string, rule Rule, severity Severity, message, fix string) {
	line, column := 1, 1
	if n != nil && n.Line > 0 {
		line, column = n.Line, n.Column
	}
	l.addAt(line, column, path, rule, severity, message, fix)
}

func (l *linter) addAt(line, column int, path string, rule Rule, severity Severity, message, fix string) {
	if severity == Error {
		l.errors++
		l.errorLines[line] = true
	}
	if len(l.findings) >= maxFindings {
		return
	}
	l.findings = append(l.findings, Finding{Line: line, Column: column, Path: path, Rule: rule, Severity: severity, Message: message, Fix: fix})
}

// scanner adds the rejections of core's line scanner that no rule above has reported on their
// lines, and compares the images of both.
func (l *linter) scanner(images []group.ServiceImage, problems []group.ComposeProblem) {
	for _, p := range problems {
		if p.Line == 0 && l.errors > 0 || l.errorLines[p.Line] {
			continue
		}
		what, fix, _ := strings.Cut(p.Message, ": ")
		l.addAt(max(p.Line, 1), 1, "", RuleStyle, Error, what, fix)
	}
	if l.errors > 0 {
		return
	}
	scanned := map[string]string{}
	for _, i := range images {
		scanned[i.Service] = i.Image
	}
	for _, s := range l.services {
		image := get(s.node, "image")
		if image == nil || scanned[s.name] != image.Value || len(scanned) != len(l.services) {
			l.add(s.node, "services."+s.name, RuleReaders, Error, "is read in two ways by two readers", "write the service as a plain block")
		}
	}
}

// templateHint explains the most likely reason of many findings.
func (l *linter) templateHint() {
	if l.errors > 0 && strings.Contains(l.text, "$${") {
		l.addAt(1, 1, "", RuleVariable, Warning, "has $${...}, so it may be a template and not a compose file",
			"lint the .hcl file that renders it with templatefile()")
	}
}

func badUTF8(text string) (line, column int) {
	line, column = 1, 1
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size <= 1 {
				return line, column
			}
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column
}
