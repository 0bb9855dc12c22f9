package view

import (
	"encoding/json"
	"reflect"
	"slices"

	"cadre.dev/core/group"
)

// Altered returns the sorted keys of records whose decoded value no longer matches the stored text.
// All Views share the values, so such a value was modified in place. Altered is for tests: it
// decodes every record again.
func (v *View) Altered() []string {
	var out []string
	for _, m := range v.said {
		if m == nil {
			continue
		}
		for key, r := range m.last {
			if !r.intact(key) {
				out = append(out, key.key)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// intact reports whether the value still equals the decoded text.
func (r remembered) intact(key memoKey) bool {
	if spec, is := r.value.(group.Spec); is {
		again, err := DecodeSpec(r.text, spec.Name)
		return err == nil && reflect.DeepEqual(again, spec)
	}
	again := reflect.New(key.of)
	return json.Unmarshal(r.text, again.Interface()) == nil && reflect.DeepEqual(again.Elem().Interface(), r.value)
}
