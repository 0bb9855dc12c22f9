package lint

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// project loads the text with compose-go, twice, under environments in which every variable has
// another value. Both loads must give the same services, in case the rules above have missed a
// variable. project runs only on texts without an error, so nothing in them makes the loader read a
// file.
func (l *linter) project() {
	defer func() {
		// As for YAML: a crash in the loader is this text's refusal.
		if crash := recover(); crash != nil {
			l.addAt(1, 1, "", RuleSchema, Error, fmt.Sprintf("makes compose's reader crash (%v)", crash), "write a plain compose file")
		}
	}()
	first, ok := l.load("1")
	if !ok {
		return
	}
	second, ok := l.load("2")
	if !ok {
		return
	}
	for _, s := range l.services {
		a, b := decisive(first, s.name), decisive(second, s.name)
		image := get(s.node, "image")
		switch {
		case a == "" || b == "":
			if get(s.node, "profiles") == nil {
				l.add(s.node, "services."+s.name, RuleReaders, Error, "is not a service to compose's reader", "write it as a plain block")
			}
		case a != b:
			l.add(s.node, "services."+s.name, RuleVariable, Error, "changes with the environment, which is not measured", "write the values out")
		case first.Services[s.name].Image != image.Value:
			l.add(image, s.path("image"), RuleReaders, Error, fmt.Sprintf("is %q to compose's reader", first.Services[s.name].Image), "write it plainly")
		}
	}
	if len(first.Services) > len(l.services) {
		l.addAt(1, 1, "services", RuleReaders, Error, "has more services to compose's reader than in the text", "write plain blocks")
	}
	if rest(first) != rest(second) {
		l.addAt(1, 1, "", RuleVariable, Error, "changes with the environment, which is not measured", "write the values out")
	}
}

func (l *linter) load(value string) (*types.Project, bool) {
	env := map[string]string{}
	if strings.ContainsRune(l.text, '$') {
		for _, name := range names(l.text) {
			env[name] = value
		}
	}
	// The tree replaces the text: for a text compose-go would log a warning about "version", and
	// keep a list of such files permanently.
	var tree map[string]any
	if err := l.root.Decode(&tree); err != nil {
		l.yamlError(err)
		return nil, false
	}
	delete(tree, "version")
	details := types.ConfigDetails{
		WorkingDir:  "/dstack",
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yaml", Config: tree}},
		Environment: env,
	}
	project, err := loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName("dstack", true)
		o.SkipNormalization = true
		o.SkipExtends = true
		o.SkipInclude = true
		o.SkipResolveEnvironment = true
		o.ResolvePaths = false
	})
	if err != nil {
		l.schemaError(err)
		return nil, false
	}
	return project, true
}

var namedService = regexp.MustCompile(`^service "([^"]+)"`)

// schemaError gives compose's error its place, if the error names one.
func (l *linter) schemaError(err error) {
	message := strings.Join(strings.Fields(err.Error()), " ")
	message = strings.TrimSuffix(strings.TrimPrefix(message, "validating docker-compose.yaml: "), ": invalid compose project")
	word, rest, _ := strings.Cut(message, " ")
	if m := namedService.FindStringSubmatch(message); m != nil {
		word, rest = "services."+m[1], message
	}
	at, node := strings.Trim(strings.TrimSuffix(word, ":"), `"'`), l.root
	for key := range strings.SplitSeq(at, ".") {
		k, v := entry(node, key)
		if k == nil {
			break
		}
		node = v
	}
	if node == l.root {
		at, rest = "", message
	}
	l.add(node, at, RuleSchema, Error, "is not what compose takes", rest)
}

// decisive is everything of a service that must not depend on the environment, as
// comparable text; "" if there is no such service.
func decisive(p *types.Project, name string) string {
	s, ok := p.Services[name]
	if !ok {
		return ""
	}
	keys := map[string]bool{}
	for key := range s.Environment {
		keys[key] = true
	}
	s.Environment, s.Labels, s.Annotations = nil, nil, nil
	s.MemLimit, s.MemReservation, s.MemSwapLimit, s.ShmSize = 0, 0, 0, 0
	s.CPUS, s.CPUShares, s.CPUSet, s.PidsLimit = 0, 0, "", 0
	s.Hostname, s.DomainName, s.ContainerName = "", "", ""
	s.Deploy = nil // filled in by the loader from cpus, mem_limit and pids_limit
	out, err := json.Marshal(map[string]any{"service": s, "environment": keys})
	if err != nil {
		return ""
	}
	return string(out)
}

// rest is everything except the services.
func rest(p *types.Project) string {
	out, err := json.Marshal(map[string]any{"configs": p.Configs, "secrets": p.Secrets, "volumes": p.Volumes, "networks": p.Networks})
	if err != nil {
		return err.Error()
	}
	return string(out)
}
