// Package strictjsontest makes documents with extreme values, for the tests of every decoder of
// specs, switches, records and requests.
package strictjsontest

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Numbers are JSON texts of numbers that overflow, wrap around or take up memory where a
// program computes with them before it judges them.
func Numbers() []string {
	return []string{
		"-1", "2147483647", "2147483648", "4294967296", "68719476736", "4611686018427387904",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
		"1e400", "-1e400", "1e-400", "1e9", "1e999999999", "0.5",
	}
}

// Texts are JSON texts of strings with extreme durations, times and numbers.
func Texts() []string {
	return []string{
		`"-1ns"`, `"2562047h47m16.854775807s"`, `"-2562047h47m16.854775808s"`, `"9223372036854775808h"`, `"1e400s"`,
		`"9999-12-31T23:59:59Z"`, `"0001-01-01T00:00:00Z"`, `"-0001-01-01T00:00:00Z"`,
		`"9223372036854775807"`, `"-1"`, `"1e999999999"`, `"postgres-9223372036854775807"`,
	}
}

// Nested are JSON texts that nest far deeper than any document of Cadre.
func Nested() []string {
	const deep = 1000
	return []string{
		strings.Repeat("[", deep) + strings.Repeat("]", deep),
		strings.Repeat(`{"a":`, deep) + "0" + strings.Repeat("}", deep),
	}
}

// Case is one document with one extreme value.
type Case struct {
	// Path of the value without indices, such as "lifecycle_hook.http.port".
	Path string
	// Value is the JSON text at the path.
	Value string
	Text  []byte
}

// Extreme gives doc, a JSON text, many times, each time with one extreme value in place of one
// number, text or truth value of it.
func Extreme(t testing.TB, doc []byte) iter.Seq[Case] {
	t.Helper()
	return func(yield func(Case) bool) {
		decoder := json.NewDecoder(bytes.NewReader(doc))
		decoder.UseNumber()
		var root any
		if err := decoder.Decode(&root); err != nil {
			t.Fatalf("the document is no JSON: %v", err)
		}
		values := slices.Concat(Numbers(), Texts(), Nested())
		walk(root, "", func(path string, set func(any)) bool {
			for _, value := range values {
				set(json.RawMessage(value))
				text, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				if !yield(Case{path, value, text}) {
					return false
				}
			}
			return true
		})
	}
}

// walk visits every leaf of a JSON tree and puts the old value back after each visit.
func walk(node any, path string, visit func(path string, set func(any)) bool) bool {
	child := func(value any, at string, set func(any)) bool {
		switch value.(type) {
		case map[string]any, []any:
			return walk(value, at, visit)
		}
		defer set(value)
		return visit(at, set)
	}
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if !child(node[key], at, func(v any) { node[key] = v }) {
				return false
			}
		}
	case []any:
		for i := range node {
			if !child(node[i], path, func(v any) { node[i] = v }) {
				return false
			}
		}
	}
	return true
}
