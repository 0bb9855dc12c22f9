package group

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func healing(edit func(*Spec)) Spec {
	s := goodSpec()
	s.AutoHealing = &AutoHealing{}
	edit(&s)
	s.Normalize()
	return s
}

func TestR116_TheRevisionOfARepairIsOneOfTwo(t *testing.T) {
	for _, at := range []string{"", HealAtNewest, HealAtRunning} {
		if got := problems(t, healing(func(s *Spec) { s.AutoHealing.At = at })); len(got) > 0 {
			t.Errorf("%q: %v", at, got)
		}
	}
	wantProblem(t, healing(func(s *Spec) { s.AutoHealing.At = "stable" }), "auto_healing_policies.at", "R116")
}

func TestHealingHasDefaults(t *testing.T) {
	s := healing(func(*Spec) {})
	if InitialDelay(s) != 5*time.Minute || MaxAttempts(s) != 5 || HealWindow(s) != time.Hour {
		t.Errorf("%s, %d in %s", InitialDelay(s), MaxAttempts(s), HealWindow(s))
	}
	if !s.HealsOn(OnExit) || !s.HealsOn(OnUnhealthy) {
		t.Error("a policy that names no failure leaves some out")
	}
	s.RestartPolicy.On = []string{OnExit}
	if s.HealsOn(OnUnhealthy) || !s.HealsOn(OnExit) {
		t.Error("a policy that names one failure heals another")
	}
	for on, want := range map[string]bool{OnAlways: true, OnNever: false} {
		s.RestartPolicy.On = []string{on}
		if s.HealsOn(OnUnhealthy) != want || s.HealsOn(OnExit) != want {
			t.Errorf("%s heals otherwise", on)
		}
		if got := problems(t, s); len(got) > 0 {
			t.Errorf("%s: %v", on, got)
		}
	}
	s.AutoHealing, s.RestartPolicy.On = nil, nil
	if s.HealsOn(OnExit) {
		t.Error("healed without auto_healing_policies")
	}
}

// TestHealingIsNoPartOfTheRevision: to switch it on moves no Slot.
func TestHealingIsNoPartOfTheRevision(t *testing.T) {
	if a, b := goodSpec().Revision(), healing(func(s *Spec) { s.RestartPolicy.MaxAttempts = ptr(2) }).Revision(); a != b {
		t.Errorf("%.8s became %.8s", a, b)
	}
}

func TestHealingIsJudgedAtOnce(t *testing.T) {
	s := healing(func(s *Spec) {
		s.AutoHealing = &AutoHealing{HealthCheck: "nobody", InitialDelaySec: ptr(4000), Replace: "always"}
		s.RestartPolicy = RestartPolicy{On: []string{"exit", "host_reboot", "exit", "sometimes", "never"}, MaxAttempts: ptr(0), Window: Duration(time.Second)}
	})
	want := []string{
		`auto_healing_policies.health_check: "nobody" is the name of no health_check of this group`,
		"auto_healing_policies.initial_delay_sec: is 4000: must be 0 to 3600",
		`auto_healing_policies.replace: "always" is unknown: use "ask" or "auto"`,
		`restart_policy.on[1]: "host_reboot" is not reported by any platform: use "exit", which a reboot of the host shows as`,
		`restart_policy.on[3]: "sometimes" is unknown: use "unhealthy", "exit", "always" or "never"`,
		`restart_policy.on[4]: "never" excludes the others: remove it, or the others`,
		`restart_policy.on[2]: "exit" stands twice`,
		"restart_policy.max_attempts: is 0: must be 1 to 8",
		"restart_policy.window: is 1s: must be 1m0s to 24h0m0s",
	}
	text := strings.Join(problems(t, s), "\n")
	for _, one := range want {
		if !strings.Contains(text, one) {
			t.Errorf("not told: %s\n%s", one, text)
		}
	}
	s = healing(func(s *Spec) { s.AutoHealing, s.RestartPolicy.MaxAttempts = nil, ptr(3) })
	wantProblem(t, s, "restart_policy", "")
}

// TestR115_HealingThatCouldNeverActIsRefused, with the field that would do nothing.
func TestR115_HealingThatCouldNeverActIsRefused(t *testing.T) {
	const check, service, replace = "auto_healing_policies.health_check", "auto_healing_policies.service", "auto_healing_policies.replace"
	for name, c := range map[string]struct {
		kind string
		heal AutoHealing
		on   []string
		want []string
	}{
		"a check, for what stopped":                {"patroni", AutoHealing{HealthCheck: "ready"}, []string{OnExit}, []string{check}},
		"a service, for what stopped":              {"patroni", AutoHealing{Service: "db"}, []string{OnExit}, []string{service}},
		"both":                                     {"none", AutoHealing{HealthCheck: "ready", Service: "db"}, []string{OnExit}, []string{check, service}},
		"both, for what runs":                      {"none", AutoHealing{HealthCheck: "ready", Service: "db"}, []string{OnUnhealthy}, nil},
		"both, for either":                         {"none", AutoHealing{HealthCheck: "ready", Service: "db"}, []string{OnExit, OnUnhealthy}, nil},
		"another CVM, for what runs":               {"patroni", AutoHealing{Replace: ReplaceAuto}, []string{OnUnhealthy}, []string{replace}},
		"another CVM, for what stopped":            {"patroni", AutoHealing{Replace: ReplaceAuto}, []string{OnExit}, nil},
		"nobody is asked, for what runs":           {"patroni", AutoHealing{Replace: ReplaceAsk}, []string{OnUnhealthy}, nil},
		"a service of which nobody says it is ill": {"none", AutoHealing{Service: "db"}, nil, []string{service}},
		"a service that a driver knows":            {"etcd", AutoHealing{Service: "db"}, nil, nil},
		"everything, for a while at rest":          {"patroni", AutoHealing{HealthCheck: "ready", Service: "db", Replace: ReplaceAuto}, []string{OnNever}, nil},
	} {
		s := healing(func(s *Spec) {
			s.Workload, s.AutoHealing, s.RestartPolicy.On = Workload{Kind: c.kind}, &c.heal, c.on
		})
		var got []string
		for _, p := range problems(t, s) {
			path, _, _ := strings.Cut(p, ": ")
			got = append(got, path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: refused at %v, want %v", name, got, c.want)
		}
	}
}

// TestR46_AGroupOfOneIsNotReplacedAutomatically: the spec gets a warning, because its replicas may come
// later.
func TestR46_AGroupOfOneIsNotReplacedAutomatically(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		replicas int
		replace  string
		want     bool
	}{
		"one with data":     {"patroni", 1, ReplaceAuto, true},
		"two":               {"patroni", 2, ReplaceAuto, false},
		"a person is asked": {"patroni", 1, ReplaceAsk, false},
		"no driver":         {"none", 1, ReplaceAuto, false},
	} {
		s := healing(func(s *Spec) {
			s.Workload, s.Replicas, s.AutoHealing.Replace = Workload{Kind: c.kind}, c.replicas, c.replace
		})
		told := slices.ContainsFunc(Warnings(s), func(w string) bool { return strings.HasPrefix(w, "no_data_source: ") })
		if got := problems(t, s); len(got) > 0 || told != c.want {
			t.Errorf("%s: told %t, refused %v", name, told, got)
		}
	}
}
