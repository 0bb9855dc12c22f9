package group

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func goodCompose() string {
	return "services:\n  app:\n    image: registry.example:5000/team/app:1.2" + digest + "\n    command: [\"serve\", \"--port\", \"80\"]\n"
}

func goodSpec() Spec {
	s := Spec{
		Name: "postgres", Platform: "phala", AppID: strings.Repeat("ab", 20), Replicas: 3,
		Template: Template{Compose: goodCompose(), InstanceType: "tdx.small", OSImage: "dstack-0.5.7", Env: map[string]string{"A": "1"}},
		Workload: Workload{Kind: "patroni", Settings: map[string]string{"port": "8008"}},
		LifecycleHooks: []LifecycleHook{
			{Name: "drain", Transition: PreTerminate, HTTP: &HTTPAction{Port: 8008, Path: "/drain"}},
			{Name: "warm", Transition: PostLaunch, Exec: &ExecAction{Service: "web", Command: "warm"}},
		},
		HealthChecks: []HealthCheck{{Name: "ready", HTTP: &HTTPCheck{Port: 8008, RequestPath: "/readiness"}}},
		Backends:     []Backend{{Name: "pg", Port: 5432, Allow: []string{"app"}}},
		Meta:         map[string]string{"tier": "db"},
	}
	s.Normalize()
	return s
}

func minutes(n int) Duration { return Duration(time.Duration(n) * time.Minute) }

// problems are the problems of s as text, none when it is valid.
func problems(t *testing.T, s Spec) []string {
	t.Helper()
	err := Validate(s)
	if err == nil {
		return nil
	}
	var v *ValidationError
	if !errors.As(err, &v) || !errors.Is(err, ErrInvalid) {
		t.Fatalf("Validate returned %T: %v", err, err)
	}
	var out []string
	for _, p := range v.Problems {
		out = append(out, p.String())
	}
	return out
}

// wantProblem checks that exactly the named field is refused, under the rule.
func wantProblem(t *testing.T, s Spec, path, rule string) {
	t.Helper()
	found := false
	for _, p := range problems(t, s) {
		at, _, _ := strings.Cut(p, ": ")
		if at != path {
			t.Errorf("unexpected problem %q", p)
			continue
		}
		found = true
		if rule != "" && !strings.HasSuffix(p, "("+rule+")") {
			t.Errorf("problem %q does not name rule %s", p, rule)
		}
	}
	if !found {
		t.Errorf("%s is not refused", path)
	}
}
