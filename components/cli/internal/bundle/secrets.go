package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	// removed stands in the place of a secret.
	removed = "(removed)"
	// minSecret is the least length of a secret: shorter texts occur by chance.
	minSecret = 8
)

// Secrets are known values that no part may contain.
type Secrets struct{ forms [][]byte }

// NewSecrets takes the values, each in all usual forms: as it is, in JSON and URLs, as hexadecimal
// and base64, also in the middle of other bytes. Values shorter than 8 bytes are left out.
func NewSecrets(values ...string) Secrets {
	var s Secrets
	for _, v := range values {
		if len(v) < minSecret {
			continue
		}
		code := hex.EncodeToString([]byte(v))
		forms := []string{v, code, strings.ToUpper(code), url.QueryEscape(v), url.PathEscape(v)}
		if text, err := json.Marshal(v); err == nil {
			forms = append(forms, string(text[1:len(text)-1]))
		}
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			// The value begins at any of three places of a group of four characters. The characters at
			// its edges hold other bits too.
			for shift := range 3 {
				text := enc.EncodeToString(append(make([]byte, shift), v...))
				forms = append(forms, text[(shift*8+5)/6:(shift+len(v))*8/6])
			}
		}
		for _, form := range forms {
			if !slices.ContainsFunc(s.forms, func(f []byte) bool { return string(f) == form }) {
				s.forms = append(s.forms, []byte(form))
			}
		}
	}
	// A longer form may contain a shorter one.
	slices.SortStableFunc(s.forms, func(a, b []byte) int { return len(b) - len(a) })
	return s
}

// remove replaces each form in text, and counts them.
func (s Secrets) remove(text []byte) (cleaned []byte, n int) {
	for _, form := range s.forms {
		if found := bytes.Count(text, form); found > 0 {
			text, n = bytes.ReplaceAll(text, form, []byte(removed)), n+found
		}
	}
	return text, n
}

// secretFields are fields whose values are left out, of any type: values of env are the users',
// and records of Cadre have no field of the other names today.
var secretFields = []string{"env", "environment", "headers", "token", "password", "secret_value", "api_key", "private_key"}

// Redact returns decoded JSON with the values of fields that may hold secrets replaced, and with the
// names of an env.
func Redact(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if slices.Contains(secretFields, strings.ToLower(key)) {
				out[key] = blank(value)
			} else {
				out[key] = Redact(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = Redact(value)
		}
		return out
	}
	return tree
}

// blank keeps the names of an object only.
func blank(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = blank(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = blank(value)
		}
		return out
	}
	return removed
}
