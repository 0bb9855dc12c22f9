package declared

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/group"
	"cadre.dev/exec/call"
)

const (
	// Key is the extension of a service.
	Key = "x-cadre"
	// Program is the program that a service with commands runs under.
	Program = "/run/mesh/exec"
	// Folder is where a service has the folder that it shares with the agent; the agent
	// has it below, under the service's name.
	Folder = "/run/cadre-exec"
	// Agent is the service of the agent.
	Agent = "cadre"
	// maxNames bounds the commands of one service.
	maxNames = 32
)

// Commands are argument vectors by service and name.
type Commands map[string]map[string][]string

// Declared are the acts that a compose text permits the agent in services.
type Declared struct {
	// Exec are the commands of hooks and checks; a service that declares anything is a key.
	Exec Commands
	// Run are the commands that operators may run.
	Run Commands
	// Logs are the services whose output operators may read, sorted.
	Logs []string
}

// Problem is a fault that keeps a text's commands from being run.
type Problem struct {
	// Node is where; never nil from Tree.
	Node *yaml.Node
	// Path is the place in words, "services.db.x-cadre.exec.drain".
	Path    string
	Message string
	// Fix is the way out.
	Fix string
}

func (p Problem) String() string { return fmt.Sprintf("%s %s: %s", p.Path, p.Message, p.Fix) }

// Read returns the commands of hooks and checks of a whole compose text. With problems there are no
// commands.
func Read(text string) (Commands, []Problem) {
	all, problems := ReadAll(text)
	return all.Exec, problems
}

// ReadAll reads a whole compose text. With problems nothing is declared.
func ReadAll(text string) (all Declared, problems []Problem) {
	defer func() {
		// A spec is foreign input: a parser's crash must be its refusal.
		if crash := recover(); crash != nil {
			all, problems = Declared{}, unreadable(fmt.Errorf("the reader crashes on it: %v", crash))
		}
	}()
	root, err := parse(text)
	if err != nil {
		return Declared{}, unreadable(err)
	}
	return Tree(root)
}

func parse(text string) (*yaml.Node, error) {
	var tree map[string]any
	var doc yaml.Node
	// Decode into a map first: that rejects a duplicate key.
	err := yaml.Unmarshal([]byte(text), &tree)
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &doc)
	}
	if err == nil && len(doc.Content) != 1 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

func unreadable(err error) []Problem {
	return []Problem{{Node: &yaml.Node{}, Path: "compose", Message: fmt.Sprintf("cannot be read (%v)", err), Fix: "write a plain compose file"}}
}

// Tree reads a parsed compose text without duplicate keys.
func Tree(root *yaml.Node) (Declared, []Problem) {
	r := &reader{root: root, out: Declared{Exec: Commands{}, Run: Commands{}}}
	if key, _ := entry(root, Key); key != nil {
		r.refuse(key, Key, "belongs to no service", "write it under the service whose commands it declares")
	}
	each(get(root, "services"), func(key, service *yaml.Node) {
		if service.Kind == yaml.MappingNode {
			r.services = append(r.services, named{key.Value, service})
		}
	})
	for _, s := range r.services {
		r.service(s)
	}
	r.volumes()
	if len(r.problems) > 0 {
		return Declared{}, r.problems
	}
	slices.Sort(r.out.Logs)
	return r.out, nil
}

type named struct {
	name string
	node *yaml.Node
}

func (s named) path(key string) string { return "services." + s.name + "." + key }

type reader struct {
	root     *yaml.Node
	services []named
	out      Declared
	problems []Problem
}

func (r *reader) refuse(n *yaml.Node, path, message, fix string) {
	r.problems = append(r.problems, Problem{n, path, message, fix})
}

func (r *reader) service(s named) {
	key, body := entry(s.node, Key)
	if key == nil {
		return
	}
	where := s.path(Key)
	if s.name == Agent || s.name == "coordinator" {
		r.refuse(key, where, "declares commands of Cadre's own container, which runs none", "declare them under the workload's service")
		return
	}
	if p := group.NameProblem(s.name); p != "" {
		r.refuse(key, where, fmt.Sprintf("belongs to the service %q, whose name %s", s.name, p), "rename the service")
	}
	if body.Kind != yaml.MappingNode || len(body.Content) == 0 {
		r.refuse(body, where, "is not a mapping of keys", "write exec:, commands: or logs: under it")
		return
	}
	r.out.Exec[s.name] = map[string][]string{}
	each(body, func(k, v *yaml.Node) {
		switch at := where + "." + k.Value; k.Value {
		case "exec":
			r.out.Exec[s.name] = r.names(at, v, body)
		case "commands":
			r.out.Run[s.name] = r.names(at, v, body)
		case "logs":
			r.logs(s, at, v)
		default:
			r.refuse(k, at, "is not known", "only exec, commands and logs are")
		}
	})
	r.start(s, key)
}

// logs opens the service's output to operators.
func (r *reader) logs(s named, where string, value *yaml.Node) {
	switch {
	case value.Kind != yaml.ScalarNode || value.Tag != "!!bool" || value.Value != "true" && value.Value != "false":
		r.refuse(value, where, "is not true or false", "write true to open the service's output to operators")
	case value.Value == "true" && text(s.node, "tty") != "" && text(s.node, "tty") != "false":
		r.refuse(value, where, "opens the output of a terminal, which is not kept", "remove tty from the service")
	case value.Value == "true":
		r.out.Logs = append(r.out.Logs, s.name)
	}
}

func (r *reader) names(where string, list, at *yaml.Node) map[string][]string {
	if list == nil || list.Kind != yaml.MappingNode || len(list.Content) > 2*maxNames {
		r.refuse(at, where, fmt.Sprintf("is not a mapping of at most %d names", maxNames), "write name: [program, argument, ...], or {} for a service that is only restarted")
		return nil
	}
	out := map[string][]string{}
	each(list, func(key, value *yaml.Node) {
		at := where + "." + key.Value
		if p := group.NameProblem(key.Value); p != "" {
			r.refuse(key, at, "has a name that "+p, "choose another name")
		}
		out[key.Value] = r.argv(at, value)
	})
	return out
}

func (r *reader) argv(at string, list *yaml.Node) []string {
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		r.refuse(list, at, "is not a list of words", "write [program, argument, ...]; no shell reads it")
		return nil
	}
	var out []string
	for i, word := range list.Content {
		here := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case word.Kind != yaml.ScalarNode || word.Tag != "!!str":
			r.refuse(word, here, "is not a text", "quote it; no alias, number or list is allowed here")
		case strings.Contains(word.Value, "$"):
			r.refuse(word, here, "has a '$', which compose would take for a variable", "put a command that needs one into a script under configs")
		}
		out = append(out, word.Value)
	}
	if err := (call.Request{Argv: out, Time: 1}).Check(); err != nil {
		r.refuse(list, at, "cannot be run ("+err.Error()+")", "shorten it, or put it into a script under configs")
	}
	return out
}

func orElse(n, other *yaml.Node) *yaml.Node {
	if n == nil {
		return other
	}
	return n
}

// entry finds a key of a mapping; an alias is its target.
func entry(n *yaml.Node, key string) (k, v *yaml.Node) {
	each(n, func(a, b *yaml.Node) {
		if k == nil && a.Value == key {
			k, v = a, b
		}
	})
	return k, v
}

func get(n *yaml.Node, key string) *yaml.Node {
	_, v := entry(n, key)
	return v
}

func text(n *yaml.Node, key string) string {
	if v := get(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

func each(n *yaml.Node, fn func(key, value *yaml.Node)) {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fn(n.Content[i], deref(n.Content[i+1]))
	}
}

func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Names are the commands of a service, for people.
func (c Commands) Names(service string) string {
	var names []string
	for name := range c[service] {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
