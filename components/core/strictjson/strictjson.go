// Package strictjson decodes JSON of another author, at a trust boundary. encoding/json takes the
// last of two equal keys and matches names without regard to case. With either, one document means
// two things to two readers. Unmarshal returns errors for both.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxDepth bounds nesting, so that hostile input cannot exhaust the stack.
const MaxDepth = 32

// Unmarshal decodes exactly one JSON value into v. It refuses invalid UTF-8, two
// keys of an object that are equal or differ only in case, a name that v does
// not have, nesting beyond MaxDepth, and anything after the value.
func Unmarshal(data []byte, v any) error { return unmarshal(data, v, false) }

// UnmarshalOpen is Unmarshal for documents that may grow: it ignores names that v does not have,
// unless a name differs only in case from one of v.
func UnmarshalOpen(data []byte, v any) error { return unmarshal(data, v, true) }

func unmarshal(data []byte, v any, open bool) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := check(dec, reflect.TypeOf(v), open, "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more data after the JSON value")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode JSON: %w", err)
	}
	return nil
}

// check walks one value. t is the type that it will be decoded into; nil where
// the names are free.
func check(dec *json.Decoder, t reflect.Type, open bool, path string, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("%s: nested deeper than %d", at(path), MaxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("%s: %w", at(path), unexpectedEnd(err))
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch delim {
	case '{':
		err = checkObject(dec, t, open, path, depth)
	case '[':
		var elem reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
			elem = t.Elem()
		}
		for i := 0; err == nil && dec.More(); i++ {
			err = check(dec, elem, open, fmt.Sprintf("%s[%d]", path, i), depth+1)
		}
	}
	if err != nil {
		return err
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%s: %w", at(path), unexpectedEnd(err))
	}
	return nil
}

func checkObject(dec *json.Decoder, t reflect.Type, open bool, path string, depth int) error {
	fields := namesOf(t)
	seen := map[string]string{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", at(path), unexpectedEnd(err))
		}
		name, ok := tok.(string)
		if !ok {
			return fmt.Errorf("%s: a key that is not a string", at(path))
		}
		folded := strings.ToLower(name)
		if first, dup := seen[folded]; dup {
			return fmt.Errorf("%s: keys %q and %q are the same", at(path), first, name)
		}
		seen[folded] = name
		next, err := valueType(t, fields, name, open)
		if err != nil {
			return fmt.Errorf("%s: %w", at(path), err)
		}
		if err := check(dec, next, open, join(path, name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// valueType is the type that the value of name decodes into, nil if its inside
// is free.
func valueType(t reflect.Type, fields map[string]reflect.Type, name string, open bool) (reflect.Type, error) {
	if t != nil && t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	if fields == nil {
		return nil, nil
	}
	if ft, ok := fields[name]; ok {
		return ft, nil
	}
	for known := range fields {
		if strings.EqualFold(known, name) {
			return nil, fmt.Errorf("key %q must be written %q", name, known)
		}
	}
	if !open {
		return nil, fmt.Errorf("unknown key %q", name)
	}
	return nil, nil
}

// namesOf maps the JSON names of a struct to their types; nil for other types.
// Embedded structs are not supported: the types decoded here have none.
func namesOf(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	names := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names[name] = f.Type
	}
	return names
}

func at(path string) string {
	if path == "" {
		return "top level"
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
