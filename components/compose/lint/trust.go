package lint

import (
	"encoding/json"
	"fmt"
	gopath "path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// cadreService checks the service that asks for admission: its trust settings must be literal in
// the measured text.
func (l *linter) cadreService() {
	found := false
	for _, s := range l.services {
		if s.cadre() {
			found = true
			l.trust(s)
		}
	}
	if !found && len(l.services) > 0 {
		l.add(get(l.root, "services"), "services", RuleAgent, Warning, "has no service named cadre, so nothing here asks for admission",
			"add Cadre's agent as service cadre")
	}
}

func (l *linter) trust(s service) {
	file := flag(append(words(get(s.node, "entrypoint")), words(get(s.node, "command"))...), "trust-file")
	if file == "" {
		l.add(get(s.node, "image"), "services."+s.name, RuleTrust, Warning, "names no --trust-file", "add --trust-file=/etc/cadre/trust.json and a config with literal content there")
		return
	}
	for _, m := range mountsOf(s) {
		if target := gopath.Clean(m.target); target == gopath.Clean(file) {
			l.add(m.node, s.path("volumes"), RuleTrust, Error, fmt.Sprintf("covers the trust file %s with something that is not measured", file), "mount it from configs, with literal content")
		}
	}
	for _, item := range items(get(s.node, "configs")) {
		source, target := item.Value, "/"+item.Value
		if item.Kind == yaml.MappingNode {
			source, target = text(item, "source"), text(item, "target")
			if target == "" {
				target = "/" + source
			}
		}
		if gopath.Clean(target) != gopath.Clean(file) {
			continue
		}
		body := text(get(get(l.root, "configs"), source), "content")
		if body == "" {
			l.add(item, s.path("configs"), RuleTrust, Error, fmt.Sprintf("takes the trust file from config %q, which has no literal content", source), "write it under configs."+source+".content")
			return
		}
		l.simulated(source, body)
		return
	}
	l.add(get(s.node, "command"), s.path("command"), RuleTrust, Error, fmt.Sprintf("reads what it trusts from %s, which no config of this text puts there", file), "add a config with literal content and this target")
}

// simulated says aloud that a text trusts quotes that no hardware made.
func (l *linter) simulated(source, body string) {
	var trust struct {
		AllowSimulated bool `json:"allow_simulated"`
	}
	if json.Unmarshal([]byte(body), &trust) == nil && trust.AllowSimulated {
		l.add(get(get(get(l.root, "configs"), source), "content"), "configs."+source+".content", RuleSimulated, Warning,
			"trusts simulated evidence", "for a local cloud only: remove allow_simulated for real machines")
	}
}

// flag is the value of --name=value or --name value, "" if it is not there. The
// last one wins, as for the programs that read it.
func flag(args []string, name string) string {
	out := ""
	for i, arg := range args {
		bare := strings.TrimLeft(arg, "-")
		if len(arg)-len(bare) == 0 || len(arg)-len(bare) > 2 {
			continue
		}
		if value, ok := strings.CutPrefix(bare, name+"="); ok {
			out = value
		} else if bare == name && i+1 < len(args) {
			out = args[i+1]
		}
	}
	return out
}
