package view

import (
	"encoding/json"
	"reflect"
	"slices"

	"cadre.dev/core/group"
)

// Altered are the keys of records whose values are not what their texts say any more: somebody
// changed one in place, though all Views share it. Sorted; it is for tests, and costs as much
// as to decode everything.
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

// intact reports that the value is what the text says.
func (r remembered) intact(key memoKey) bool {
	if spec, is := r.value.(group.Spec); is {
		again, err := DecodeSpec(r.text, spec.Name)
		return err == nil && reflect.DeepEqual(again, spec)
	}
	again := reflect.New(key.of)
	return json.Unmarshal(r.text, again.Interface()) == nil && reflect.DeepEqual(again.Elem().Interface(), r.value)
}
