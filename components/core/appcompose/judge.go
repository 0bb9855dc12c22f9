package appcompose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/strictjson"
)

// Rules is what a document is judged by beside the closed list.
type Rules struct {
	// Scripts are the SHA-256, lower-case hex, of the pre_launch_script texts that
	// may stand in a document. nil: none.
	Scripts []string
	// KeyProviderID is what key_provider_id may name, lower-case hex; a document may
	// name none as well. Empty: it must name none.
	KeyProviderID string
	// SecureTimeOff: the guest does not wait for authenticated time before it boots. Documents
	// are rendered with secure_time false, and both values are accepted.
	SecureTimeOff bool
}

// Judged is what a document says that others decide about.
type Judged struct {
	Name string
	// Compose is docker_compose_file, Envs are allowed_envs in their order.
	Compose string
	Envs    []string
}

// Problem is one thing that keeps a document from being accepted.
type Problem struct {
	// Path is the key, "" for the document as a whole.
	Path string
	// Message is what is wrong, Fix the way out.
	Message, Fix string
}

// String is the problem in one line.
func (p Problem) String() string {
	text := strings.TrimSpace(p.Path + " " + p.Message)
	if p.Fix != "" {
		text += ": " + p.Fix
	}
	return text
}

// Texts are problems in one line each.
func Texts(problems []Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// Judge says everything that keeps raw from being accepted, nil for nothing. The same
// keys and values are accepted of members and of coordinators: see keys.go. Judged is
// filled as far as the document can be read, whatever else is wrong with it.
func Judge(raw []byte, rules Rules) (Judged, []Problem) {
	if len(raw) == 0 {
		return Judged{}, []Problem{{Message: "is empty"}}
	}
	if len(raw) > MaxSize {
		return Judged{}, []Problem{{Message: fmt.Sprintf("has %d bytes, dstack takes at most %d", len(raw), MaxSize), Fix: "move large content into an image"}}
	}
	// Twice, or in other letters: two readers would see two documents (ATT-24).
	var fields map[string]json.RawMessage
	if err := strictjson.Unmarshal(raw, &fields); err != nil {
		return Judged{}, []Problem{{Message: "is not read in one way by everybody: " + err.Error()}}
	}
	if fields == nil {
		return Judged{}, []Problem{{Message: "is not an object"}}
	}
	j := judge{rules: rules, fields: fields}
	for _, k := range keys {
		value, ok := fields[k.name]
		switch {
		case ok:
			k.check(&j, k, value)
		case k.must != "":
			j.add(k.name, "is missing", k.fix)
		}
	}
	for _, name := range sortedNames(fields) {
		if !slices.ContainsFunc(keys, func(k key) bool { return k.name == name }) {
			j.unknown(name)
		}
	}
	j.gatewayTwice()
	return j.out, j.problems
}

type judge struct {
	rules    Rules
	fields   map[string]json.RawMessage
	out      Judged
	problems []Problem
}

// maxProblems bounds what a hostile document can make us say.
const maxProblems = 50

func (j *judge) add(path, message, fix string) {
	if len(j.problems) < maxProblems {
		j.problems = append(j.problems, Problem{Path: clipped(path), Message: message, Fix: fix})
	}
}

// unknown refuses a key that is not on the list, with what is known about it.
func (j *judge) unknown(name string) {
	if why, ok := refused[name]; ok {
		j.add(name, why, "leave it out")
		return
	}
	for _, k := range keys {
		if strings.EqualFold(k.name, name) {
			j.add(name, fmt.Sprintf("must be written %q", k.name), "")
			return
		}
	}
	j.add(name, "is not on the list of keys that Cadre accepts", "leave it out; a later dstack may read it, and nobody has judged what it does")
}

// gatewayTwice: dstack takes either name for the setting, so two that disagree mean
// what whoever reads one of them does not see.
func (j *judge) gatewayTwice() {
	one, two := string(j.fields["gateway_enabled"]), string(j.fields["tproxy_enabled"])
	if one != "" && two != "" && strings.TrimSpace(one) != strings.TrimSpace(two) {
		j.add("tproxy_enabled", "says other than gateway_enabled, and both name one setting", "leave it out")
	}
}

func clipped(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func sortedNames(fields map[string]json.RawMessage) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
