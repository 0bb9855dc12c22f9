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
func Decode(text []byte) (Spec, error) {
	if len(text) > MaxSpecBytes {
		return Spec{}, fmt.Errorf("group spec has %d bytes, at most %d are allowed", len(text), MaxSpecBytes)
	}
	if !utf8.Valid(text) {
		return Spec{}, errors.New("group spec is not valid UTF-8")
	}
	if err := checkShape(text, reflect.TypeFor[Spec]()); err != nil {
		return Spec{}, fmt.Errorf("group spec: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var s Spec
	if err := dec.Decode(&s); err != nil {
		return Spec{}, fmt.Errorf("group spec: %w", err)
	}
	return s, nil
}

// checkShape walks the tokens beside the type. encoding/json alone would let
// duplicate keys and "Replicas" for "replicas" pass, and two readers could then
// disagree about what a document says.
func checkShape(text []byte, typ reflect.Type) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := walkValue(dec, typ, "", 0); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the document: exactly one JSON object is expected")
	}
	return nil
}

// maxDepth is more than a spec nests; deeper input only costs time.
const maxDepth = 16

// walkValue consumes one value; typ may be nil for a place where any value goes.
func walkValue(dec *json.Decoder, typ reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("field %q nests too deeply", path)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('{'):
		return walkObject(dec, typ, path, depth)
	case json.Delim('['):
		return walkArray(dec, typ, path, depth)
	}
	return nil
}

func walkArray(dec *json.Decoder, typ reflect.Type, path string, depth int) error {
	var elem reflect.Type
	if typ = deref(typ); typ != nil && typ.Kind() == reflect.Slice {
		elem = typ.Elem()
	}
	for i := 0; dec.More(); i++ {
		if err := walkValue(dec, elem, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func walkObject(dec *json.Decoder, typ reflect.Type, path string, depth int) error {
	fields := fieldTypes(typ)
	seen := make(map[string]bool)
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		at := join(path, key)
		if seen[key] {
			return fmt.Errorf("field %q stands twice: keep one", at)
		}
		seen[key] = true
		next, err := fieldType(fields, typ, key, at)
		if err != nil {
			return err
		}
		if err := walkValue(dec, next, at, depth+1); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// fieldType is the type of the value under key; nil fields means that any key goes.
func fieldType(fields map[string]reflect.Type, typ reflect.Type, key, at string) (reflect.Type, error) {
	if fields == nil {
		if typ = deref(typ); typ != nil && typ.Kind() == reflect.Map {
			return typ.Elem(), nil
		}
		return nil, nil
	}
	next, ok := fields[key]
	if !ok {
		return nil, fmt.Errorf("unknown field %q; known here: %s", at, strings.Join(sortedKeys(fields), ", "))
	}
	return next, nil
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
