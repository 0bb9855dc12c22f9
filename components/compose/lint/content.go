package lint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cadre.dev/core/group"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/appcompose"
)

var (
	secretName  = regexp.MustCompile(`(?i)(^|_)(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY)S?(_[A-Z0-9]{1,4})?$`)
	secretValue = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bglpat-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bsk_live_[A-Za-z0-9]{16,}`)
	urlPassword = regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^/\s:@$]+:[^/\s:@$]+@`)
)

const secretFix = "declare a secret in the group's spec, or derive it from the guest agent; a compose text is shown to every verifier"

// environment reports literal secrets, and names that a text must not set.
func (l *linter) environment(s service) {
	env := get(s.node, "environment")
	check := func(n *yaml.Node, name, value string) {
		where := s.path("environment") + "." + name
		switch {
		case secretValue.MatchString(value), urlPassword.MatchString(value):
			l.add(n, where, RuleSecret, Error, "holds a secret in the measured text, which is not secret", secretFix)
		case secretName.MatchString(name) && value != "" && variable(value) == "" && !strings.HasPrefix(value, "/"):
			l.add(n, where, RuleSecret, Warning, "looks like a secret in the measured text, which is not secret", secretFix)
		}
	}
	passed := func(n *yaml.Node, name string) {
		l.uses = append(l.uses, use{name: name, as: name, place: n, at: s.path("environment") + "." + name})
		if appcompose.SteersContainer(name) {
			l.add(n, s.path("environment")+"."+name, RuleVariable, Error, "is passed on from the environment, which is not measured, and "+steers(name), "write the value out")
		}
	}
	pairs(env, func(key, value *yaml.Node) {
		if value.Tag == "!!null" {
			passed(key, key.Value)
			return
		}
		check(value, key.Value, value.Value)
	})
	if env == nil || env.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range items(env) {
		name, value, set := strings.Cut(item.Value, "=")
		if !set {
			passed(item, name)
			continue
		}
		check(item, name, value)
	}
}

const consulFix = "bind it to 127.0.0.1; Peers reach it through the overlay"

func (l *linter) ports(s service) {
	for _, item := range items(get(s.node, "ports")) {
		host, target := text(item, "host_ip"), text(item, "target")
		if item.Kind == yaml.ScalarNode {
			host, target = splitPort(item.Value)
		}
		if port := consulPort(target); port != 0 && !strings.HasPrefix(host, "127.") && host != "::1" && host != "localhost" {
			l.add(item, s.path("ports"), RuleConsul, Error, fmt.Sprintf("publishes Consul's port %d to everyone who reaches the CVM", port), consulFix)
		}
	}
}

// splitPort reads "[host:][published:]target[/protocol]".
func splitPort(spec string) (host, target string) {
	spec, _, _ = strings.Cut(spec, "/")
	i := strings.LastIndexByte(spec, ':')
	if i < 0 {
		return "", spec
	}
	rest, target := spec[:i], spec[i+1:]
	if i = strings.LastIndexByte(rest, ':'); i < 0 {
		return "", target
	}
	return strings.Trim(rest[:i], "[]"), target
}

// consulPort is the first of Consul's ports in a port or range, 0 if there is none.
func consulPort(target string) int {
	first, last, ranged := strings.Cut(target, "-")
	low, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	high := low
	if ranged {
		if high, err = strconv.Atoi(last); err != nil {
			return 0
		}
	}
	for _, p := range group.ConsulPorts() {
		if low <= p && p <= high {
			return p
		}
	}
	return 0
}

// anywhere finds a Consul that listens on all addresses, as flag or as config.
var anywhere = regexp.MustCompile(`(?i)(?:(?:^|\s)--?client[= ]+|client_addr["']?\s*[:=]\s*)["']?(?:0\.0\.0\.0|\[?::\]?(?:["'\s]|$))`)

func (l *linter) listeners(s service) {
	for _, key := range []string{"entrypoint", "command"} {
		value := get(s.node, key)
		if anywhere.MatchString(strings.Join(words(value), " ")) {
			l.add(value, s.path(key), RuleConsul, Error, "makes Consul listen on all addresses", consulFix)
		}
	}
}

// words are the arguments of a command in either form.
func words(n *yaml.Node) []string {
	if n != nil && n.Kind == yaml.ScalarNode {
		return strings.Fields(n.Value)
	}
	var out []string
	for _, item := range items(n) {
		out = append(out, item.Value)
	}
	return out
}

const modelProblem = "has a program of the machine fetch and run what no digest fixes"

// topLevel checks the sections other than the services.
func (l *linter) topLevel() {
	if k, _ := entry(l.root, "include"); k != nil {
		l.add(k, "include", RuleUnmeasured, Error, "brings in services from a file that is not measured", "write them into this file")
	}
	if k, _ := entry(l.root, "version"); k != nil {
		l.add(k, "version", RuleObsolete, Warning, "is ignored by compose, and older readers choose other rules by it", "remove the line")
	}
	if k, _ := entry(l.root, "models"); k != nil {
		l.add(k, "models", RuleUnmeasured, Error, modelProblem, "run it in a service with a pinned image")
	}
	for _, section := range []string{"configs", "secrets"} {
		pairs(get(l.root, section), func(key, value *yaml.Node) { l.content(section, key, value) })
	}
	l.volumeOptions()
	pairs(l.root, func(key, value *yaml.Node) {
		if strings.HasPrefix(key.Value, "x-") {
			l.templates(value, path{key.Value})
		}
	})
}

// content: a config's text decides the behaviour of a program, so the compose text must contain it.
// A secret can be put over any file of the container and has no content in the text. A file is
// bound like a mount, be it a socket or a folder.
func (l *linter) content(section string, key, value *yaml.Node) {
	fix := "write it under content"
	if section == "secrets" {
		fix = "declare a secret in the group's spec, or write what is not secret under configs"
	}
	where := section + "." + key.Value
	for _, from := range []string{"file", "environment", "external", "template_driver", "driver"} {
		if k, v := entry(value, from); k != nil && (from != "external" || v.Value != "false") {
			l.add(k, where+"."+from, RuleUnmeasured, Error, "takes the content from outside of the measured text", fix)
		}
	}
	if file := get(value, "file"); file != nil && (reachOf(file.Value) == reachGuest || reachOf(file.Value) == reachEngine) {
		l.bind(file, where+".file", file.Value, false) // of no service, so also not for Cadre's
	}
	body := text(value, "content")
	if secretValue.MatchString(body) {
		l.add(get(value, "content"), where+".content", RuleSecret, Error, "holds a secret in the measured text, which is not secret", secretFix)
	}
	if anywhere.MatchString(body) {
		l.add(get(value, "content"), where+".content", RuleConsul, Error, "makes Consul listen on all addresses", consulFix)
	}
}

// templates looks for images in x- blocks: aliases bring them into services.
func (l *linter) templates(n *yaml.Node, at path) {
	if len(at) > maxDepth || n == nil || n.Kind == yaml.AliasNode {
		return
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := at.next(key.Value)
		if key.Value == "image" && value.Kind == yaml.ScalarNode {
			before := len(l.findings)
			l.pinned(value, here.String(), value.Value)
			for j := before; j < len(l.findings); j++ {
				l.findings[j].Rule = RuleTemplate
			}
		}
		l.templates(value, here)
	}
	for i := 0; n.Kind == yaml.SequenceNode && i < len(n.Content); i++ {
		l.templates(n.Content[i], at.next(strconv.Itoa(i)))
	}
}
