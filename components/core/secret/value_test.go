package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"cadre.dev/core/secret"
)

const canary = "correct-horse-battery"

// TOK-07: every way to print a Value, alone or inside other values, prints no secret.
func TestTOK07_ValuePrintsRedactedEverywhere(t *testing.T) {
	v := secret.FromString(canary)
	type inner struct {
		hidden secret.Value
		Shown  secret.Value
	}
	type outer struct {
		list []secret.Value
		byID map[string]inner
		p    *inner
		any  any
	}
	nested := outer{list: []secret.Value{v}, byID: map[string]inner{"a": {hidden: v, Shown: v}}, p: &inner{hidden: v}, any: v}
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil),
	} {
		slog.New(handler).Info("x", "secret", v, "nested", nested, "pointer", &nested, "group", slog.GroupValue(slog.Any("v", v)))
	}
	asJSON, err := json.Marshal(map[string]any{"v": v, "list": []secret.Value{v}, "inner": inner{Shown: v}})
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{"slog": logged.String(), "json": string(asJSON), "error": fmt.Errorf("use %v: %w", v, errors.New("x")).Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		outputs[verb] = fmt.Sprintf(verb, v) + fmt.Sprintf(verb, nested) + fmt.Sprintf(verb, &nested) + fmt.Sprintf(verb, []any{v, nested.p})
	}
	forms := []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]")}
	for how, out := range outputs {
		for _, form := range forms {
			if strings.Contains(out, form) {
				t.Errorf("%s shows the secret: %s", how, out)
			}
		}
	}
	if !strings.Contains(outputs["%v"], secret.Redacted) || !strings.Contains(string(asJSON), secret.Redacted) {
		t.Errorf("not marked as redacted: %s %s", outputs["%v"], asJSON)
	}
}

func TestTOK17_EqualComparesContent(t *testing.T) {
	a, b := secret.FromString(canary), secret.New([]byte(canary))
	if !a.Equal(b) || a.Equal(secret.FromString(canary+"x")) || a.Equal(secret.Value{}) || !(secret.Value{}).Equal(secret.New(nil)) {
		t.Error("equality is not that of the bytes")
	}
	raw := a.Reveal()
	raw[0] = 'X'
	if a.RevealString() != canary {
		t.Error("a revealed copy changes the value")
	}
}
