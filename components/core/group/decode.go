package group

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxSpecBytes bounds the JSON text of a spec; larger input is refused unread.
const MaxSpecBytes = 256 << 10

// Decode reads one spec from JSON. It refuses input above MaxSpecBytes, invalid
// UTF-8, unknown or differently cased fields, duplicate keys and anything after
// the document. It neither fills defaults nor validates.
//
// Where single fields are wrong, the error is a *ValidationError with a problem for each, and the
// Spec holds all other fields, so that its own problems can be reported with them: see And.
func Decode(text []byte) (Spec, error) {
	if len(text) > MaxSpecBytes {
		return Spec{}, fmt.Errorf("group spec has %d bytes, at most %d are allowed", len(text), MaxSpecBytes)
	}
	if !utf8.Valid(text) {
		return Spec{}, errors.New("group spec is not valid UTF-8")
	}
	tree, problems, err := readTree(text, reflect.TypeFor[Spec]())
	if err != nil {
		return Spec{}, fmt.Errorf("group spec: %w", err)
	}
	var s Spec
	if text, err = json.Marshal(tree); err == nil {
		err = json.Unmarshal(text, &s)
	}
	switch {
	case err != nil:
		return Spec{}, fmt.Errorf("group spec: %w", err)
	case len(problems) > 0:
		return s, &ValidationError{Group: s.Name, Problems: problems}
	}
	return s, nil
}

// readTree reads one JSON object along its type. The tree has the values that the type can hold,
// and each problem is about a field that is left out of the tree. encoding/json alone stops at the
// first field of another type, and lets duplicate keys and "Replicas" for "replicas" pass: two
// readers could then disagree about the document's meaning.
func readTree(text []byte, typ reflect.Type) (any, []Problem, error) {
	r := &treeReader{dec: json.NewDecoder(bytes.NewReader(text))}
	r.dec.UseNumber()
	tree, problems, err := r.value(typ, 0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, err
	}
	if tree == nil || len(problems) > 0 && problems[0].Path == "" {
		return nil, nil, errors.New("is not a JSON object")
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is more after the document: exactly one JSON object is expected")
	}
	return tree, problems, nil
}

const (
	// maxDepth is more than a spec nests; deeper input only costs time.
	maxDepth = 16
	// maxWrongFields bounds the error for hostile input.
	maxWrongFields = 100
)

type treeReader struct {
	dec   *json.Decoder
	wrong int
}

// absent is the value of a field that is left out of the tree.
type absent struct{}

// problem is one at the place that is being read; the callers write their part of the path before it.
func (r *treeReader) problem(format string, args ...any) []Problem {
	if r.wrong++; r.wrong > maxWrongFields {
		return nil
	}
	return []Problem{{Message: fmt.Sprintf(format, args...)}}
}

// value consumes one value. typ is nil where every value is left out. Paths of the problems begin
// at the value.
func (r *treeReader) value(typ reflect.Type, depth int) (any, []Problem, error) {
	if depth > maxDepth {
		return nil, nil, fmt.Errorf("the text nests more than %d levels deep", maxDepth)
	}
	tok, err := r.dec.Token()
	if err != nil {
		return nil, nil, err
	}
	typ = deref(typ)
	switch tok {
	case json.Delim('{'):
		return r.object(typ, depth)
	case json.Delim('['):
		return r.array(typ, depth)
	}
	if typ == nil || tok == nil {
		return tok, nil, nil
	}
	if message := scalarProblem(tok, typ); message != "" {
		return instead(typ), r.problem("%s", message), nil
	}
	return tok, nil, nil
}

// instead returns a placeholder of typ for a value of another type. The placeholder keeps the block
// present, so that no missing block is reported in addition.
func instead(typ reflect.Type) any {
	if typ != nil && typ.Kind() == reflect.Struct {
		return map[string]any{}
	}
	return absent{}
}

func (r *treeReader) array(typ reflect.Type, depth int) (any, []Problem, error) {
	var elem reflect.Type
	var problems []Problem
	if typ != nil && typ.Kind() == reflect.Slice {
		elem = typ.Elem()
	} else if typ != nil {
		problems = r.problem("is a list: %s", wanted(typ))
	}
	out := []any{}
	for i := 0; r.dec.More(); i++ {
		value, more, err := r.value(elem, depth+1)
		if err != nil {
			return nil, nil, err
		}
		problems = append(problems, below(itemPath(i, value), more)...)
		if value != (any)(absent{}) {
			out = append(out, value)
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return nil, nil, err
	}
	if elem == nil {
		return instead(typ), problems, nil
	}
	return out, problems, nil
}

// itemPath is how validation names an element of a list: by its label, if it has one.
func itemPath(i int, value any) string {
	item, _ := value.(map[string]any)
	for _, label := range []string{"name", "ordinal"} {
		switch is := item[label].(type) {
		case string:
			return fmt.Sprintf("[%q]", is)
		case json.Number:
			return fmt.Sprintf("[%q]", is.String())
		}
	}
	return fmt.Sprintf("[%d]", i)
}

func (r *treeReader) object(typ reflect.Type, depth int) (any, []Problem, error) {
	fields := fieldTypes(typ)
	var problems []Problem
	taken := typ != nil && (fields != nil || typ.Kind() == reflect.Map)
	if typ != nil && !taken {
		problems = r.problem("is an object: %s", wanted(typ))
	}
	seen, out := map[string]bool{}, map[string]any{}
	for r.dec.More() {
		tok, err := r.dec.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := tok.(string)
		var next reflect.Type
		known := true
		switch {
		case fields != nil:
			next, known = fields[key]
		case taken:
			next = typ.Elem()
		}
		value, more, err := r.value(next, depth+1)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case seen[key]:
			more = r.problem("stands twice: keep one")
		case !known:
			more = r.problem("is no field of a group spec; known here: %s", strings.Join(sortedKeys(fields), ", "))
		case value != (any)(absent{}):
			out[key] = value
		}
		seen[key] = true
		at := key
		if taken && fields == nil {
			at = fmt.Sprintf("[%q]", key)
		}
		problems = append(problems, below(at, more)...)
	}
	if _, err := r.dec.Token(); err != nil {
		return nil, nil, err
	}
	if !taken {
		return absent{}, problems, nil
	}
	return out, problems, nil
}

// below writes the part of a path that the problems are below.
func below(at string, problems []Problem) []Problem {
	for i, p := range problems {
		switch {
		case p.Path == "", p.Path[0] == '[':
			problems[i].Path = at + p.Path
		default:
			problems[i].Path = at + "." + p.Path
		}
	}
	return problems
}

// scalarProblem is why a text, number or boolean is no value of the type; "": it is one.
func scalarProblem(tok any, typ reflect.Type) string {
	raw, err := json.Marshal(tok)
	if err == nil && typ == reflect.TypeFor[Duration]() {
		text, isText := tok.(string)
		if !isText {
			text = string(raw)
		}
		if _, err = ParseDuration(text); err != nil {
			return err.Error()
		}
	}
	if err == nil && json.Unmarshal(raw, reflect.New(typ).Interface()) == nil {
		return ""
	}
	return fmt.Sprintf("is %.60s: %s", raw, wanted(typ))
}

// wanted describes the values of the type for an error text.
func wanted(typ reflect.Type) string {
	switch word := fieldWord(typ); word {
	case "number":
		return "write a whole number"
	case typeString:
		return "write a text"
	case "bool":
		return "write true or false"
	case "duration":
		return "write a text such as \"300s\" or \"5m\""
	default:
		return "write a " + word
	}
}

// fieldTypes maps the exact JSON names of a struct; nil for anything else.
func fieldTypes(typ reflect.Type) map[string]reflect.Type {
	typ = deref(typ)
	if typ == nil || typ.Kind() != reflect.Struct {
		return nil
	}
	out := make(map[string]reflect.Type, typ.NumField())
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = typ.Field(i).Type
		}
	}
	return out
}

func deref(typ reflect.Type) reflect.Type {
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
