package group

import (
	"reflect"
	"slices"
	"strings"
)

// Field describes one field of the Spec. The field reference, the Terraform schema and plans are
// made from it.
type Field struct {
	// Path from the top, without indices: "lifecycle_hook.http.port".
	Path string
	// Class is the cost of a change of the field. It is empty for a block, whose fields have
	// classes.
	Class UpdateAction
	// Default and Range are texts for readers, with literal values in backquotes; empty: none.
	Default, Range string
	// Line describes the field in one line, in Markdown.
	Line string
	// Type is how it is written: "string", "block", ...
	Type string
}

// Fields are all fields of the Spec, in the order of the reference.
func Fields() []Field {
	types := make(map[string]string)
	walkFields(reflect.TypeFor[Spec](), "", func(path, typ string) { types[path] = typ })
	all := slices.Clone(fields)
	for i := range all {
		all[i].Type = types[all[i].Path]
	}
	return all
}

// Words is Line with range and default, for where there is one text for all.
func (f Field) Words() string {
	words := f.Line
	if f.Range != "" {
		words += " Range: " + f.Range + "."
	}
	if f.Default != "" {
		words += " Default: " + f.Default + "."
	}
	return words
}

// How fields are written.
const (
	typeString = "string"
	typeBlock  = "block"
	typeBlocks = "blocks"
)

// walkFields calls visit for each field of a struct of the spec, parents first.
func walkFields(typ reflect.Type, at string, visit func(path, typ string)) {
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		path, t := join(at, name), deref(typ.Field(i).Type)
		visit(path, fieldWord(t))
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			walkFields(t, path, visit)
		}
	}
}

func fieldWord(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return "duration"
	}
	switch t.Kind() {
	case reflect.String:
		return typeString
	case reflect.Bool:
		return "bool"
	case reflect.Struct:
		return typeBlock
	case reflect.Map:
		return "map of strings"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return typeBlocks
		}
		return "list of strings"
	default:
		return "number"
	}
}
