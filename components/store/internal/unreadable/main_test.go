package main

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func record(key, value string) string {
	return fmt.Sprintf(`{"key": %q, "flags": 0, "value": %q}`, key, base64.StdEncoding.EncodeToString([]byte(value)))
}

func TestUnknownKeysAndFieldsAreListed(t *testing.T) {
	export := "[" + strings.Join([]string{
		record("cadre/v1/lease/term", `{"term": 7}`),
		record("cadre/v1/lease/state", `{"state": 7, "later": true}`),
		record("cadre/v1/later/7", `{}`),
	}, ",") + "]"
	got, err := unreadable(strings.NewReader(export))
	want := []string{`lease/state: json: unknown field "later"`, `later/7: key is not in the table of records: "later/7"`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("unreadable %q, %v, want %q", got, err, want)
	}
}

func TestInputThatIsNoExportIsRefused(t *testing.T) {
	for input, want := range map[string]string{
		"":                                    "not the output",
		"Error! 403":                          "not the output",
		"[]":                                  "no records",
		"[" + record("other/key", "{}") + "]": "not below cadre/v1/",
	} {
		if _, err := unreadable(strings.NewReader(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("input %q: error %v, want %q in it", input, err, want)
		}
	}
}
