package lint

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/appcompose"
	"cadre.dev/exec/declared"
)

const (
	markFlag = "--revision-mark="
	markFix  = "write " + markFlag + appcompose.MarkPlace + ", for which Cadre writes the mark"
)

// mark: Cadre's own programs compare the mark that they were started with to that of the
// measured text. Without one a container of an earlier boot cannot be distinguished from one of this text.
func (l *linter) mark(s service) {
	words := arguments(s.node)
	first := ""
	if len(words) > 0 {
		first = words[0].Value
	}
	found := false
	for _, word := range words {
		value, is := strings.CutPrefix(word.Value, markFlag)
		if is && value != appcompose.MarkPlace && appcompose.CheckMark(l.text, value) != nil {
			l.add(word, s.path("command"), RuleMark, Error, "has a mark that is no mark of this text", markFix)
		}
		found = found || is
	}
	starts := slices.Contains([]string{declared.Program, declared.Shell, declared.Waiter}, first)
	if !found && (starts || slices.Contains(cadreNames, s.name)) {
		l.add(s.node, s.path("command"), RuleMark, Warning, "has no mark: a container that an earlier revision left cannot be distinguished from this one", markFix)
	}
}

// arguments are the words that a service is started with.
func arguments(service *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, key := range []string{"entrypoint", "command"} {
		list := get(service, key)
		if list == nil || list.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range list.Content {
			if item = deref(item); item.Kind == yaml.ScalarNode {
				out = append(out, item)
			}
		}
	}
	return out
}
