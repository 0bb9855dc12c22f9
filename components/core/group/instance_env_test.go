package group

import (
	"maps"
	"strings"
	"testing"
)

// coloured is a spec whose second Slot has a value of its own.
func coloured(own map[string]string) Spec {
	s := goodSpec()
	s.Template.Env = map[string]string{"COLOR": "blue", "SHAPE": "round"}
	s.Instances = []InstanceSettings{{Ordinal: 1, Env: own}}
	return s
}

func TestR143_ASlotHasValuesOfItsOwn(t *testing.T) {
	s := coloured(map[string]string{"COLOR": "red"})
	if got := problems(t, s); got != nil {
		t.Fatalf("refused: %v", got)
	}
	if got := s.EnvOf(1, s.Template); !maps.Equal(got, map[string]string{"COLOR": "red", "SHAPE": "round"}) {
		t.Errorf("web-1 has %v", got)
	}
	if got := s.EnvOf(0, s.Template); !maps.Equal(got, s.Template.Env) {
		t.Errorf("web-0 has %v", got)
	}
	if s.Template.Env["COLOR"] != "blue" || s.Revision() != coloured(nil).Revision() {
		t.Error("the group's env, or the revision, is another one by it")
	}
	// A Revision without the name has no value for it either: names are measured.
	if got := s.EnvOf(1, Template{Env: map[string]string{"SHAPE": "round"}}); len(got) != 1 {
		t.Errorf("at a revision without COLOR: %v", got)
	}
}

func TestR143_TheSameValuesHaveTheSameName(t *testing.T) {
	red := coloured(map[string]string{"COLOR": "red"})
	name := red.OwnEnv(1, red.Template)
	if name == "" || red.OwnEnv(0, red.Template) != "" {
		t.Errorf("web-1 %q, web-0 %q", name, red.OwnEnv(0, red.Template))
	}
	for what, own := range map[string]map[string]string{
		"none":                  nil,
		"the group's own value": {"COLOR": "blue"},
	} {
		if s := coloured(own); s.OwnEnv(1, s.Template) != "" {
			t.Errorf("%s: it has a name", what)
		}
	}
	green := coloured(map[string]string{"COLOR": "green"})
	if again := coloured(map[string]string{"COLOR": "red", "SHAPE": "round"}); again.OwnEnv(1, again.Template) != name || green.OwnEnv(1, green.Template) == name {
		t.Error("the names do not tell the values apart, or tell the same ones apart")
	}
}

func TestR143_ForbiddenEnvOfASlotIsRefused(t *testing.T) {
	for path, own := range map[string]map[string]string{
		`instance["1"].env["SIZE"]`:  {"SIZE": "1"},
		`instance["1"].env["COLOR"]`: {"COLOR": "a\x00"},
		`instance["1"].env`:          {"COLOR": strings.Repeat("a", maxEnvBytes)},
	} {
		rule := ""
		if path == `instance["1"].env["SIZE"]` {
			rule = "R143"
		}
		wantProblem(t, coloured(own), path, rule)
	}
	s := coloured(map[string]string{"COLOR": "AKIAIOSFODNN7EXAMPLE"})
	wantProblem(t, s, `instance["1"].env["COLOR"]`, ruleSecretInSpec)
}
