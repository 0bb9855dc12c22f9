package group

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// leaf reports that a field holds a value, or is a block without fields, as `wait`.
func leaf(path string, types map[string]string) bool {
	if !strings.HasPrefix(types[path], typeBlock) {
		return true
	}
	for other := range types {
		if strings.HasPrefix(other, path+".") {
			return false
		}
	}
	return true
}

func TestEveryFieldHasAClass(t *testing.T) {
	types := make(map[string]string)
	walkFields(reflect.TypeFor[Spec](), "", func(path, typ string) { types[path] = typ })
	told := make(map[string]bool)
	for _, f := range Fields() {
		_, known := types[f.Path]
		switch {
		case !known:
			t.Errorf("%s is no field of the spec", f.Path)
			continue
		case told[f.Path]:
			t.Errorf("%s stands twice", f.Path)
		case leaf(f.Path, types) && !slices.Contains(UpdateActions(), f.Class):
			t.Errorf("%s has no class: say what a change of it costs", f.Path)
		case !leaf(f.Path, types) && f.Class != "":
			t.Errorf("%s is a block: its fields have the classes", f.Path)
		}
		if f.Type == "" || !strings.HasSuffix(f.Line, ".") || strings.ContainsAny(f.Line+f.Default+f.Range, "|\n") {
			t.Errorf("%s: wants a type, and a line that ends with a full stop and fits into a table: %+v", f.Path, f)
		}
		if at := strings.LastIndex(f.Path, "."); at > 0 && !told[f.Path[:at]] {
			t.Errorf("%s stands before its block", f.Path)
		}
		told[f.Path] = true
	}
	for path := range types {
		if !told[path] {
			t.Errorf("%s is a field of the spec and has no row", path)
		}
	}
}

func TestTheReferenceListsTheKindsOfWorkload(t *testing.T) {
	for _, f := range Fields() {
		for _, kind := range WorkloadKinds() {
			if f.Path == "workload.kind" && !strings.Contains(f.Line, "`"+kind+"`") {
				t.Errorf("%s is missing: %s", kind, f.Line)
			}
		}
	}
}

// The defaults in the reference are the defaults that Normalize fills in.
func TestTheReferenceListsTheDefaults(t *testing.T) {
	s := Spec{
		LifecycleHooks: []LifecycleHook{{HTTP: &HTTPAction{}}},
		HealthChecks:   []HealthCheck{{HTTP: &HTTPCheck{}}},
		Backends:       []Backend{{}},
		Secrets:        []Secret{{}},
		Gates:          []Gate{{}},
	}
	s.Normalize()
	set := make(map[string]string)
	collect(set, reflect.ValueOf(s), "")
	filled := 0
	for _, f := range Fields() {
		value, ok := set[f.Path]
		if !ok {
			continue
		}
		filled++
		want := strings.Trim(f.Default, "`")
		if d := new(Duration); f.Type == "duration" && d.UnmarshalText([]byte(want)) == nil {
			want = d.String()
		}
		if value != want && !strings.Contains(want, " ") {
			t.Errorf("%s: the reference says %q, Normalize fills in %s", f.Path, f.Default, value)
		}
		if f.Default == "" {
			t.Errorf("%s: Normalize fills in %s, the reference tells no default", f.Path, value)
		}
	}
	if filled < 15 {
		t.Errorf("%d fields were filled in: the walk misses some", filled)
	}
}

// collect notes the text of every value that is not zero.
func collect(out map[string]string, v reflect.Value, at string) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Slice && v.Len() > 0:
		collect(out, v.Index(0), at)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			collect(out, v.Field(i), join(at, name))
		}
	case !v.IsZero():
		out[at] = fmt.Sprint(v.Interface())
	}
}

func TestActionsAreOrdered(t *testing.T) {
	all := UpdateActions()
	for i, a := range all {
		for j, b := range all {
			if a.Harsher(b) != (i > j) {
				t.Errorf("%s harsher than %s: %t", a, b, a.Harsher(b))
			}
		}
		if !a.Harsher("") {
			t.Errorf("%s is not harsher than no action", a)
		}
	}
	if got := Harshest(ActionRefresh, ActionRestart, ActionNone); got != ActionRestart {
		t.Errorf("the harshest is %s", got)
	}
}
