package shape

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Kind is how a Field is written.
type Kind int

const (
	// Text is a string argument; durations are texts as well.
	Text Kind = iota
	// Number is a whole number.
	Number
	// Flag is true or false.
	Flag
	// Texts is a list of strings.
	Texts
	// TextMap is a map of strings.
	TextMap
	// Block occurs at most once.
	Block
	// Blocks occur any number of times, in order.
	Blocks
)

// Field is one argument or block.
type Field struct {
	// Name in its block, the JSON name; Path from the top without indices, such as
	// "lifecycle_hook.http.port".
	Name, Path string
	Kind       Kind
	// Needed: the spec has no default for it.
	Needed bool
	// The presence of this Block alone has a meaning: its Go field is a pointer.
	MeaningfulWhenEmpty bool
	// Fields of a Block or of each of Blocks.
	Fields []Field
}

// defaulted are written without omitempty and have a default all the same.
var defaulted = map[string]bool{"platform": true}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// Of gives the Fields of a struct in the order of the type.
func Of[T any]() []Field { return of(reflect.TypeFor[T](), "") }

func of(typ reflect.Type, at string) []Field {
	out := []Field{}
	for i := range typ.NumField() {
		tag := typ.Field(i).Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		f := Field{Name: name, Path: join(at, name)}
		t := typ.Field(i).Type
		optional := strings.Contains(options, "omit")
		pointer := t.Kind() == reflect.Pointer
		for t.Kind() == reflect.Pointer {
			t, optional = t.Elem(), true
		}
		switch kind := t.Kind(); {
		case reflect.PointerTo(t).Implements(textType), kind == reflect.String:
			f.Kind = Text
		case kind == reflect.Bool:
			f.Kind = Flag
		case kind == reflect.Struct:
			f.Kind, f.Fields, f.MeaningfulWhenEmpty = Block, of(t, f.Path), pointer
		case kind == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			f.Kind, f.Fields = Blocks, of(t.Elem(), f.Path)
		case kind == reflect.Slice:
			f.Kind = Texts
		case kind == reflect.Map:
			f.Kind = TextMap
		default:
			f.Kind = Number
		}
		f.Needed = !optional && f.Kind != Block && !defaulted[f.Path]
		out = append(out, f)
	}
	return out
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// Find gives the Field of a name; false when there is none.
func Find(fields []Field, name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Type of the Field in Terraform's type system.
func (f Field) Type() tftypes.Type {
	switch f.Kind {
	case Number:
		return tftypes.Number
	case Flag:
		return tftypes.Bool
	case Texts:
		return tftypes.List{ElementType: tftypes.String}
	case TextMap:
		return tftypes.Map{ElementType: tftypes.String}
	case Block:
		return Object(f.Fields)
	case Blocks:
		return tftypes.List{ElementType: Object(f.Fields)}
	case Text:
	}
	return tftypes.String
}

// Object is the type of a block with these Fields.
func Object(fields []Field) tftypes.Object {
	types := map[string]tftypes.Type{}
	for _, f := range fields {
		types[f.Name] = f.Type()
	}
	return tftypes.Object{AttributeTypes: types}
}
