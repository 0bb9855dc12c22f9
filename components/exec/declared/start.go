package declared

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// Shell is Program for services that start a script: the agent places it in the same folder,
	// and it becomes Program.
	Shell = Program + ".sh"
	// Waiter is where a service has Script, which it starts with.
	Waiter = "/etc/cadre/exec.sh"
	// Script waits for Program and becomes it. It is part of the compose text, as a config of the
	// service. A health check of the agent would be no replacement: it has an end, after which the
	// engine no longer starts the workload. Without either, a workload that is faster than the
	// agent has no program to start with.
	Script = `#!/bin/sh
# Waits until the agent has put exec there, however late that is, and becomes it.
trap 'exit 143' TERM
trap 'exit 130' INT
until [ -x /run/mesh/exec ]; do sleep 0.2 || sleep 1; done
exec /run/mesh/exec "$@"
`
)

// start: only cadre-exec as the first process takes commands.
func (r *reader) start(s named, at *yaml.Node) {
	first := "entrypoint"
	list := get(s.node, first)
	if list == nil {
		first = "command"
		list = get(s.node, first)
	}
	word := ""
	if list != nil && list.Kind == yaml.SequenceNode && len(list.Content) > 2 {
		word = list.Content[0].Value
	}
	switch word {
	case Program, Shell:
	case Waiter:
		r.waits(s, list)
	default:
		r.refuse(orElse(list, at), s.path(first), "does not start with "+Waiter+" or "+Program+", which runs the declared commands", "write ["+Waiter+", --, program, argument, ...]")
	}
}

// waits checks that the service has Script at Waiter, byte for byte.
func (r *reader) waits(s named, at *yaml.Node) {
	where := s.path("configs")
	var source string
	if list := get(s.node, "configs"); list != nil && list.Kind == yaml.SequenceNode {
		for _, item := range list.Content {
			if item = deref(item); clean(text(item, "target")) == Waiter {
				source = text(item, "source")
			}
		}
	}
	key, config := entry(get(r.root, "configs"), source)
	if source == "" || key == nil {
		r.refuse(at, where, "has nothing at "+Waiter, "add { source: exec, target: "+Waiter+", mode: 0555 }, with the script of docs/guides/compose.md as the config's content")
		return
	}
	if strings.ReplaceAll(text(config, "content"), "$$", "$") != Script {
		r.refuse(key, "configs."+source, fmt.Sprintf("is at %s and is not the script that waits for %s", Waiter, Program), "take its content from docs/guides/compose.md")
	}
}
