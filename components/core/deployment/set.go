package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Set changes one field of every group, as replicas=1, or of one group by its short name, as
// web.replicas=2. short has the short names of the groups of d, in their order. The value is read as JSON
// where the field takes it so, and as a text elsewhere.
func Set(d Document, short []string, text string) (Document, error) {
	field, value, ok := strings.Cut(text, "=")
	path := strings.Split(field, ".")
	if !ok || slices.Contains(path, "") {
		return d, fmt.Errorf("%.80q: want field=value for every group, or group.field=value for one", text)
	}
	only := -1
	if len(path) > 1 {
		if only = slices.Index(short, path[0]); only >= 0 {
			path = path[1:]
		} else if !slices.ContainsFunc(group.Fields(), func(f group.Field) bool { return f.Path == path[0] }) {
			return d, fmt.Errorf("%.80q: there is neither a group %q nor a field of this name; the groups are %s", text, path[0], strings.Join(short, ", "))
		}
	}
	d.Groups = slices.Clone(d.Groups)
	for i, spec := range d.Groups {
		if only >= 0 && i != only {
			continue
		}
		next, err := set(spec, path, json.RawMessage(value))
		if err != nil {
			if quoted, asText := set(spec, path, value); asText == nil {
				next, err = quoted, nil
			}
		}
		if err != nil {
			return d, fmt.Errorf("%.80q: group %s: %w", text, spec.Name, err)
		}
		d.Groups[i] = next
	}
	return d, nil
}

// set decodes the changed spec as any other text, so that an unknown field is refused.
func set(s group.Spec, path []string, value any) (group.Spec, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return s, err
	}
	at, last := tree, path[len(path)-1]
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if _, exists := at[key]; exists && !ok {
			return s, fmt.Errorf("%s: is no block with fields of its own, and only such fields can be set", key)
		}
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[last] = value
	if text, err = json.Marshal(tree); err != nil {
		return s, errors.New("the value is no JSON, and the field takes no text")
	}
	next, err := group.Decode(text)
	if err == nil && next.Name != s.Name {
		err = errors.New("name: the name of a group follows from the deployment, and cannot be set")
	}
	return next, err
}
