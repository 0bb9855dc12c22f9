package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/template"
)

func TestEnvAndTextHaveWhatTheOtherTakes(t *testing.T) {
	const missing, unused = "warning env-missing", "warning env-unused"
	given := map[string]string{"CADRE_GATEWAY_DOMAIN": "gw", "CADRE_PATHS": "", "MEMORY": "1g", "A": "1"}
	for value, want := range map[string][]string{
		"${A}":                       {},
		"$A":                         {},
		"${A:?is required}":          {},
		"${B:?is required}":          {"error env-missing", unused},
		"${B?}":                      {"error env-missing", unused},
		"${B}":                       {missing, unused},
		"$B/${A}":                    {missing},
		"${B:-x}":                    {unused},
		"${B-}":                      {unused},
		"${B:-}":                     {unused},
		"${B:+x}":                    {unused},
		"${B:-$A}":                   {},
		"${B:-${C}}":                 {missing, unused},
		"${A:-${C:?}}":               {"error env-missing"},
		"$$B $${C:?}":                {unused},
		"${B} and ${B:-x}":           {missing, unused},
		"${COMPOSE_PROJECT_NAME}-$A": {},
	} {
		for _, form := range []string{"environment: {X: \"%s\"}", "environment: [\"X=%s\"]", "labels: {X: \"%s\"}"} {
			text := web(fmt.Sprintf(form, value), "mem_limit: ${MEMORY}")
			var got []string
			for _, f := range Spec(text, given) {
				got = append(got, fmt.Sprintf("%s %s", f.Severity, f.Rule))
				if place := f.Place(); f.Rule == RuleMissing && !strings.HasPrefix(place, "template.compose:20:") || f.Rule == RuleUnused && place != "template.env: " {
					t.Errorf("%s is at %s", f, place)
				}
			}
			if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("%s: findings %q, want %q", strings.Replace(form, "%s", value, 1), got, want)
			}
		}
	}
	if found := Spec(web("environment: [A, B]", "mem_limit: ${MEMORY}"), given); len(found) != 1 || found[0].Rule != RuleMissing || !strings.HasPrefix(found[0].Message, "takes B, and env has no B") {
		t.Errorf("passed on: %v", found)
	}
	if found := Lint([]byte(web("environment: {X: \"${B:?}\"}"))); len(found) > 0 {
		t.Errorf("a text alone says nothing of env: %v", found)
	}
}

// Lint and compose reject the same texts: the same names are missing.
func FuzzUsesAreThoseOfCompose(f *testing.F) {
	for _, v := range []string{"$A", "${A}", "$$A", "${A:-${B}}", "${A:?x}", "${A?}${B:?}", "${A:-x}$B", "a${A+b}", "${A:+${B:?}}"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		_, err := template.SubstituteWithOptions(value, func(string) (string, bool) { return "", false }, template.WithoutLogging)
		var absent *template.MissingRequiredError
		required := slices.ContainsFunc(usesIn(value), func(u use) bool { return u.required })
		if errors.As(err, &absent) && !required {
			t.Errorf("compose requires %q of %q, and lint does not", absent.Variable, value)
		}
	})
}
