package appcompose

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode writes doc like the dstack SDKs of other languages: keys sorted, compact, UTF-8, no final
// newline. encoding/json escapes & < > by default, and U+2028 and U+2029 always, which gives
// another hash. Values are nil, bool, string, int, int64, json.Number, []string, []any and
// map[string]any.
func Encode(doc map[string]any) ([]byte, error) {
	var b strings.Builder
	if err := write(&b, doc); err != nil {
		return nil, fmt.Errorf("encode app-compose.json: %w", err)
	}
	return []byte(b.String()), nil
}

func write(b *strings.Builder, v any) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case json.Number:
		b.WriteString(v.String())
	case string:
		return quote(b, v)
	case []string:
		return list(b, v)
	case []any:
		return list(b, v)
	case map[string]any:
		return object(b, v)
	default:
		return fmt.Errorf("a value of type %T has no one form: use a whole number, text, a list or a map", v)
	}
	return nil
}

func list[T any](b *strings.Builder, items []T) error {
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(b, item); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func object(b *strings.Builder, fields map[string]any) error {
	b.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(fields)) {
		// Languages sort other characters in different orders.
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("key %q is not plain ASCII", key)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if err := quote(b, key); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := write(b, fields[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	b.WriteByte('}')
	return nil
}

var escapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func quote(b *strings.Builder, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%.40q is not UTF-8", s)
	}
	b.WriteByte('"')
	for _, r := range s {
		short, escaped := escapes[r]
		switch {
		case escaped:
			b.WriteString(short)
		case r < ' ':
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return nil
}
