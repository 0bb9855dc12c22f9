package lint

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is deeper than any compose file nests.
const maxDepth = 40

// read parses the one document of the text.
func (l *linter) read() {
	defer func() {
		// A spec is foreign input: a parser's crash must be its refusal.
		if crash := recover(); crash != nil {
			l.root = nil
			l.addAt(1, 1, "", RuleYAML, Error, fmt.Sprintf("makes the YAML reader crash (%v)", crash), "write plain YAML")
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(l.text))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			l.addAt(1, 1, "", RuleYAML, Error, "is empty", "write services")
			return
		}
		l.yamlError(err)
		return
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		l.add(&second, "", RuleYAML, Error, "has a second document, which some readers ignore and others merge", "keep one document")
		return
	case !errors.Is(err, io.EOF):
		l.yamlError(err)
		return
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		l.addAt(1, 1, "", RuleYAML, Error, "is not a mapping of keys", "write services")
		return
	}
	l.root = doc.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (l *linter) yamlError(err error) {
	text, line := err.Error(), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	l.addAt(line, 1, "", RuleYAML, Error, "is not YAML", strings.TrimPrefix(text, "yaml: "))
}

// tree checks every node: duplicate keys, merges, aliases, tags, words that readers interpret
// differently, and variables.
func (l *linter) tree() { l.node(l.root, nil) }

func (l *linter) node(n *yaml.Node, at path) {
	switch {
	case len(at) > maxDepth:
		l.add(n, at.String(), RuleYAML, Error, fmt.Sprintf("is nested deeper than %d", maxDepth), "flatten it")
		return
	case n.Kind == yaml.AliasNode:
		if containsAlias(n.Alias, 0) {
			l.add(n, at.String(), RuleAlias, Error, "is an alias of something with an alias in it", "write the value out")
			return
		}
		l.add(n, at.String(), RuleAlias, Warning, fmt.Sprintf("is an alias of &%s, so a reader of the text must look elsewhere", n.Value), "write the value out")
		l.values(n.Alias, n, at, 0)
		return
	case n.Style&yaml.TaggedStyle != 0:
		l.add(n, at.String(), RuleTag, Error, fmt.Sprintf("has the tag %s, which readers treat differently", n.Tag), "remove the tag")
	}
	switch n.Kind {
	case yaml.MappingNode:
		l.mapping(n, at)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			l.node(item, at.next(strconv.Itoa(i)))
		}
	case yaml.ScalarNode:
		l.scalar(n, n, at)
	case yaml.DocumentNode, yaml.AliasNode: // the root is neither; aliases are done
	}
}

func (l *linter) mapping(n *yaml.Node, at path) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			l.add(key, at.String(), RuleStyle, Error, "has a key that is not a plain word", "write a plain key")
			continue
		}
		here := at.next(key.Value)
		if key.Style&yaml.TaggedStyle != 0 || key.Anchor != "" {
			l.add(key, here.String(), RuleTag, Error, "is a key with a tag or an anchor", "write a plain key")
		}
		if key.Value == "<<" {
			l.add(key, here.String(), RuleMerge, Error, "merges other keys in; readers differ in which of two equal keys wins", "write the keys out")
			continue // the merged node has its own place, and the text is rejected
		}
		if variable(key.Value) != "" {
			l.add(key, here.String(), RuleVariable, Error, "is a key with a variable in it", "write the key out")
		}
		if first, twice := seen[key.Value]; twice {
			l.add(key, here.String(), RuleDuplicate, Error, fmt.Sprintf("occurs twice, first in line %d: readers differ in their choice", first), "keep one")
		}
		seen[key.Value] = key.Line
		l.node(value, here)
	}
}

// values checks the scalars of an alias's target as if they stood at the alias.
func (l *linter) values(n, place *yaml.Node, at path, depth int) {
	if depth > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		l.scalar(n, place, at)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			l.values(item, place, at.next(strconv.Itoa(i)), depth+1)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			l.values(n.Content[i+1], place, at.next(n.Content[i].Value), depth+1)
		}
	case yaml.DocumentNode, yaml.AliasNode: // node refuses aliases of aliases
	}
}

var (
	oldBooleans = []string{"y", "n", "yes", "no", "on", "off"}
	sexagesimal = regexp.MustCompile(`^[-+]?[0-9]+(:[0-5]?[0-9])+$`)
)

// scalar checks one value; place is where it is reported.
func (l *linter) scalar(n, place *yaml.Node, at path) {
	l.variables(n.Value, place, at)
	if place == n { // the content of an alias was noted at the anchor
		l.used(n.Value, n, at.String())
	}
	if n.Style != 0 || len(at) > 0 && strings.HasPrefix(at[0], "x-") {
		return // quoted and block scalars are text to every reader
	}
	if slices.Contains(oldBooleans, strings.ToLower(n.Value)) {
		l.add(place, at.String(), RuleAmbiguous, Error, fmt.Sprintf("is %s: a boolean to YAML 1.1 and a word to YAML 1.2", n.Value), "write true or false, or quote it")
	}
	if sexagesimal.MatchString(n.Value) {
		l.add(place, at.String(), RuleAmbiguous, Warning, fmt.Sprintf("is %s: a number in base 60 to YAML 1.1 and a word to YAML 1.2", n.Value), "quote it")
	}
	if n.ShortTag() == "!!timestamp" {
		l.add(place, at.String(), RuleAmbiguous, Error, fmt.Sprintf("is %s: a date to compose's reader, which takes no dates", n.Value), "quote it")
	}
	if text := containerText(n, at); text != n.Value {
		l.add(place, at.String(), RuleAmbiguous, Warning, fmt.Sprintf("is %s, which the container gets as %s", n.Value, text), "quote it")
	}
}

// containerText is the text that compose-go v2.9.1 makes of an unquoted scalar of a map of texts:
// it prints numbers and booleans again, so that UMASK: 0022 becomes 18 and VERSION: 1.10 becomes 1.1.
func containerText(n *yaml.Node, at path) string {
	if len(at) != 4 || at[0] != "services" || !slices.Contains([]string{"environment", "labels", "annotations"}, at[2]) {
		return n.Value
	}
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool":
		var value any
		if n.Decode(&value) == nil {
			return fmt.Sprint(value)
		}
	}
	return n.Value
}

func containsAlias(n *yaml.Node, depth int) bool {
	if n.Kind == yaml.AliasNode || depth > maxDepth {
		return true
	}
	for _, c := range n.Content {
		if containsAlias(c, depth+1) {
			return true
		}
	}
	return false
}

// path is the position of a node, one key or index after another.
type path []string

func (p path) next(key string) path { return append(slices.Clone(p), key) }

func (p path) String() string { return strings.Join(p, ".") }

// deref follows one alias; tree has refused aliases of aliases.
func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// get is the value of a key of a mapping, nil if there is none.
func get(n *yaml.Node, key string) *yaml.Node {
	_, value := entry(n, key)
	return value
}

func entry(n *yaml.Node, key string) (k, v *yaml.Node) {
	n = deref(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], deref(n.Content[i+1])
		}
	}
	return nil, nil
}

// text is the value of a scalar key, "" if there is none.
func text(n *yaml.Node, key string) string {
	if v := get(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// items are the elements of a list, or the single value in place of one.
func items(n *yaml.Node) []*yaml.Node {
	n = deref(n)
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.SequenceNode:
		out := make([]*yaml.Node, 0, len(n.Content))
		for _, c := range n.Content {
			out = append(out, deref(c))
		}
		return out
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil
	}
	return []*yaml.Node{n}
}

// pairs calls fn with each key and value of a mapping.
func pairs(n *yaml.Node, fn func(key, value *yaml.Node)) {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fn(n.Content[i], deref(n.Content[i+1]))
	}
}
