package group

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Change is one field that differs between two specs, and the cost of the change.
type Change struct {
	// Path as operators write it: `lifecycle_hook["drain"].http.port`.
	Path  string       `json:"path"`
	Class UpdateAction `json:"class"`
	// Is is the next value where the two specs do not show it: the size that a single Slot gets.
	Is string `json:"is,omitempty"`
}

// String is the change in a few words.
func (c Change) String() string {
	if c.Is != "" {
		return fmt.Sprintf("%s = %s (%s)", c.Path, c.Is, c.Class)
	}
	return fmt.Sprintf("%s (%s)", c.Path, c.Class)
}

// Changes are the fields in which next differs from old, absent ones with their defaults, in
// the order of the type.
func Changes(old, next Spec) []Change {
	old, next = old.clone(), next.clone()
	old.Normalize()
	next.Normalize()
	d := &differ{}
	d.structs(reflect.ValueOf(old), reflect.ValueOf(next), "")
	if old.AppID == "" || next.AppID == "" {
		// To write down which app was allotted, or to leave it out, changes nothing.
		d.changes = slices.DeleteFunc(d.changes, func(c Change) bool { return c.Path == "app_id" })
	}
	return d.changes
}

// Needed is the harshest class of changes, ActionNone of none.
func Needed(changes []Change) UpdateAction {
	out := ActionNone
	for _, c := range changes {
		out = Harshest(out, c.Class)
	}
	return out
}

// Exceeding returns the changes that cost more than allowed.
func Exceeding(changes []Change, allowed UpdateAction) []Change {
	var out []Change
	for _, c := range changes {
		if c.Class.Harsher(allowed) {
			out = append(out, c)
		}
	}
	return out
}

// ClassOf returns the cost of a change of the field at path. The path may have the names and
// indices of its blocks. The class of a block is the harshest class of its fields.
func ClassOf(path string) UpdateAction {
	for path = plainPath(path); path != ""; {
		if class, ok := classes[path]; ok {
			return class
		}
		at := strings.LastIndexByte(path, '.') // an entry of a map
		path = path[:max(at, 0)]
	}
	return ActionNone
}

// classes by plain path, blocks with the harshest in them.
var classes = func() map[string]UpdateAction {
	out := make(map[string]UpdateAction, len(fields))
	for _, f := range fields {
		out[f.Path] = Harshest(out[f.Path], f.Class)
		for at := strings.LastIndexByte(f.Path, '.'); at > 0; at = strings.LastIndexByte(f.Path[:at], '.') {
			out[f.Path[:at]] = Harshest(out[f.Path[:at]], f.Class)
		}
	}
	out["workload.settings."+SettingVersion] = ActionRefresh // no driver reads it
	return out
}()

// plainPath returns path without its parts in brackets.
func plainPath(path string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexByte(rest, ']')
		if strings.HasPrefix(rest, `"`) {
			if quoted := strings.Index(rest, `"]`); quoted > 0 {
				end = quoted + 1
			}
		}
		path = rest[end+1:]
	}
}

type differ struct{ changes []Change }

func (d *differ) add(path string) {
	d.changes = append(d.changes, Change{Path: path, Class: ClassOf(path)})
}

func (d *differ) structs(a, b reflect.Value, at string) {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			d.values(a.Field(i), b.Field(i), join(at, name))
		}
	}
}

func (d *differ) values(a, b reflect.Value, at string) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	switch {
	case a.Kind() == reflect.Struct:
		d.structs(a, b, at)
	case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Struct:
		d.lists(a, b, at)
	case a.Kind() == reflect.Map && a.Type().Elem().Kind() == reflect.String:
		d.maps(a, b, at)
	case a.Kind() == reflect.Slice && a.Len()+b.Len() == 0:
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		d.add(at)
	}
}

// lists compares blocks: those with a label by it, and others, such as stages and windows, by their place.
func (d *differ) lists(a, b reflect.Value, at string) {
	was, is := keys(a), keys(b)
	count := len(d.changes)
	for i, key := range is {
		if j := slices.Index(was, key); j >= 0 {
			d.structs(a.Index(j), b.Index(i), at+key)
		} else {
			d.add(at + key)
		}
	}
	for _, key := range was {
		if !slices.Contains(is, key) {
			d.add(at + key)
		}
	}
	if at == "lifecycle_hook" && len(d.changes) == count && !slices.Equal(was, is) {
		d.add(at) // only their order, which no other block has
	}
}

// keys are the parts in brackets of the blocks' paths.
func keys(list reflect.Value) []string {
	out := make([]string, list.Len())
	for i := range out {
		out[i] = fmt.Sprintf("[%d]", i)
		for _, name := range []string{"Name", "Ordinal"} {
			if f := list.Index(i).FieldByName(name); f.IsValid() {
				out[i] = fmt.Sprintf("[%q]", fmt.Sprint(f.Interface()))
			}
		}
	}
	return out
}

func (d *differ) maps(a, b reflect.Value, at string) {
	was, _ := a.Convert(reflect.TypeFor[map[string]string]()).Interface().(map[string]string)
	is, _ := b.Convert(reflect.TypeFor[map[string]string]()).Interface().(map[string]string)
	for _, key := range sortedKeys(is) {
		if old, had := was[key]; !had || old != is[key] {
			d.add(join(at, key))
		}
	}
	for _, key := range sortedKeys(was) {
		if _, has := is[key]; !has {
			d.add(join(at, key))
		}
	}
}
