package appcompose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/strictjson"
)

// Rules are the limits of a document in addition to the closed list.
type Rules struct {
	// Scripts are the SHA-256, lower-case hex, of the permitted pre_launch_script texts. nil: none.
	Scripts []string
	// KeyProviderID is the permitted key_provider_id, lower-case hex; a document without one is
	// accepted as well. Empty: the document must name none.
	KeyProviderID string
	// SecureTimeOff: the guest does not wait for authenticated time before it boots. Documents
	// are rendered with secure_time false, and both values are accepted.
	SecureTimeOff bool
	// Platform selects the keys that Render adds for the servers of a platform, such as "phala" or
	// "vmm"; empty: phala. It decides about no document: each platform's is judged by one list.
	Platform string
}

// Judged are the document's values for other decisions.
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
	// Message states the problem, Fix the way out.
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

// Judge returns every reason against raw, nil for none. Members and coordinators have the same keys
// and values: see keys.go. Judged is filled as far as the document can be read, also with problems.
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

// maxProblems bounds the output for a hostile document.
const maxProblems = 50

func (j *judge) add(path, message, fix string) {
	if len(j.problems) < maxProblems {
		j.problems = append(j.problems, Problem{Path: truncated(path), Message: message, Fix: fix})
	}
}

// unknown rejects a key that is not on the list, with the known facts about it.
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
	j.add(name, "is not on the list of keys that Cadre accepts", "leave it out; a later dstack may read it, and Cadre has not judged its effect")
}

// gatewayTwice: dstack takes either name for the setting, so two different values would mislead a
// reader of one of them.
func (j *judge) gatewayTwice() {
	one, two := string(j.fields["gateway_enabled"]), string(j.fields["tproxy_enabled"])
	if one != "" && two != "" && strings.TrimSpace(one) != strings.TrimSpace(two) {
		j.add("tproxy_enabled", "says other than gateway_enabled, and both name one setting", "leave it out")
	}
}

func truncated(text string) string {
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
