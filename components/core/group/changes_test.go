package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/window"
)

func TestChangesNameTheFieldAndItsCost(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Spec)
		want []string
	}{
		{"nothing", func(*Spec) {}, nil},
		{"a default written out", func(s *Spec) { s.LifecycleHooks[0].HTTP.Method = "POST" }, nil},
		{"the compose file", func(s *Spec) { s.Template.Compose += "\n" }, []string{"template.compose (RESTART)"}},
		{"entries of a map", func(s *Spec) { s.Template.Env = map[string]string{"B": "2"} }, []string{"template.env.B (RESTART)", "template.env.A (RESTART)"}},
		{"meta and size", func(s *Spec) { s.Meta, s.Replicas = map[string]string{"tier": "x"}, 5 }, []string{"replicas (NONE)", "meta.tier (REFRESH)"}},
		{"the name of the version alone", func(s *Spec) { s.Workload.Settings = map[string]string{"port": "8008", "version": "15"} }, []string{"workload.settings.version (REFRESH)"}},
		{"a pointer", func(s *Spec) { s.UpdatePolicy.MinReadySeconds = ptr(5) }, []string{"update_policy.min_ready_seconds (NONE)"}},
		{"a field of a block with a name", func(s *Spec) { s.HealthChecks[0].HTTP.Port = 1 }, []string{`health_check["ready"].http.port (%s)`}},
		{"another block", func(s *Spec) { s.Backends = append(s.Backends, Backend{Name: "new", Port: 1}) }, []string{`backend["new"] (REFRESH)`}},
		{"a block that goes", func(s *Spec) { s.Backends = nil }, []string{`backend["pg"] (REFRESH)`}},
		{"one block instead of another", func(s *Spec) { s.HealthChecks[0].HTTP, s.HealthChecks[0].TCP = nil, &TCPCheck{Port: 1} },
			[]string{`health_check["ready"].http (%s)`, `health_check["ready"].tcp (%s)`}},
		{"a block of one Slot", func(s *Spec) { s.Instances = []InstanceSettings{{Ordinal: 1, ExcludeFromRollout: true}} }, []string{`instance["1"] (RESTART)`}},
		{"the second stage", func(s *Spec) { s.UpdatePolicy.Stages[1].Bake = Duration(time.Minute) }, []string{"update_policy.stage[1].bake (NONE)"}},
		{"a stage that goes", func(s *Spec) { s.UpdatePolicy.Stages = s.UpdatePolicy.Stages[:1] }, []string{"update_policy.stage[1] (NONE)"}},
		{"a window", func(s *Spec) { s.UpdatePolicy.Windows = window.Windows{{From: "09:00", To: "10:00", Zone: "UTC"}} }, []string{"update_policy.window[0] (NONE)"}},
		{"the allotted app is left out", func(s *Spec) { s.AppID = "" }, nil},
		{"another app", func(s *Spec) { s.AppID = strings.Repeat("cd", 20) }, []string{"app_id (REPLACE)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := goodSpec()
			old.UpdatePolicy.Stages = []Stage{{Slots: 1, Bake: Duration(time.Second)}, {Slots: 2}}
			s := old.clone()
			c.edit(&s)
			var got []string
			for _, change := range Changes(old, s) {
				got = append(got, change.String())
			}
			var want []string
			for _, text := range c.want {
				want = append(want, strings.ReplaceAll(text, "%s", string(ClassOf("health_check"))))
			}
			if !slices.Equal(got, want) {
				t.Errorf("changes %q, want %q", got, want)
			}
		})
	}
}

// A field moves the Revision exactly when its change costs a step.
func TestTheClassAgreesWithTheRevision(t *testing.T) {
	inRevision := []string{"template", "workload", "lifecycle_hook", "health_check", "restart_token"}
	for _, f := range Fields() {
		top, _, _ := strings.Cut(f.Path, ".")
		part := slices.Contains(inRevision, top)
		if f.Class != "" && part && !f.Class.Harsher(ActionNone) {
			t.Errorf("%s is part of the revision and costs %s", f.Path, f.Class)
		}
		// The env and the size of one Slot are no part of the Revision, since no Boot could prove them. The
		// Slot's record has the env, and the platform shows the size.
		if !part && f.Class == ActionRestart && f.Path != "instance.env" && f.Path != "instance.instance_type" {
			t.Errorf("%s is no part of the revision, so that nobody restarts for it", f.Path)
		}
	}
}

func TestTheClassOfAPath(t *testing.T) {
	for path, want := range map[string]UpdateAction{
		"template.env.A":                    ActionRestart,
		`template.env["A"]`:                 ActionRestart,
		`backend["a.b[c]"].port`:            ActionRefresh,
		"backend[0].port":                   ActionRefresh,
		"template":                          ActionRestart,
		"update_policy":                     ActionNone,
		`instance["3"].metadata.x`:          ActionRefresh,
		"not.there":                         ActionNone,
		`instance[0].exclude_from_healing`:  ActionNone,
		`health_check["ready"].timeout_sec`: ClassOf("health_check.timeout_sec"),
	} {
		if got := ClassOf(path); got != want {
			t.Errorf("%s costs %s, want %s", path, got, want)
		}
	}
}

func TestR132_AChangeThatCostsMoreThanIsAllowedIsRefusedAsAWhole(t *testing.T) {
	edit := func(allowed UpdateAction, change func(*Spec)) []Problem {
		next := goodSpec()
		next.UpdatePolicy.MostDisruptiveAllowedAction = allowed
		change(&next)
		return EditProblems(goodSpec(), next)
	}
	compose := func(s *Spec) { s.Template.Compose += "\n"; s.Meta = map[string]string{"tier": "x"} }
	for _, c := range []struct {
		allowed UpdateAction
		change  func(*Spec)
		want    []string
	}{
		{ActionReplace, compose, nil},
		{ActionRestart, compose, nil},
		{ActionRefresh, compose, []string{"template.compose"}},
		{ActionNone, compose, []string{"template.compose", "meta.tier"}},
		{ActionNone, func(s *Spec) { s.Replicas = 5 }, nil},
	} {
		got := edit(c.allowed, c.change)
		var paths []string
		for _, p := range got {
			paths = append(paths, p.Path)
			if !strings.Contains(p.Message, "action_not_allowed") || !strings.Contains(p.Message, "most_disruptive_allowed_action is "+string(c.allowed)) || p.Rule != "R132" {
				t.Errorf("%v does not name the bound and the rule", p)
			}
		}
		if !slices.Equal(paths, c.want) {
			t.Errorf("allowed %s: problems of %q, want %q", c.allowed, paths, c.want)
		}
	}
}

func TestR132_TheBoundsAreJudged(t *testing.T) {
	for _, c := range []struct {
		least, most UpdateAction
		path        string
	}{
		{"", "", ""},
		{ActionRestart, "", ""},
		{ActionRestart, ActionRestart, ""},
		{"", ActionNone, ""},
		{ActionReplace, "", "update_policy.minimal_action"},
		{"GENTLE", "", "update_policy.minimal_action"},
		{"", "GENTLE", "update_policy.most_disruptive_allowed_action"},
		{ActionRestart, ActionRefresh, "update_policy.most_disruptive_allowed_action"},
	} {
		t.Run(fmt.Sprintf("%s to %s", c.least, c.most), func(t *testing.T) {
			s := goodSpec()
			s.UpdatePolicy.MinimalAction, s.UpdatePolicy.MostDisruptiveAllowedAction = c.least, c.most
			if c.path == "" {
				if got := problems(t, s); got != nil {
					t.Errorf("problems %v", got)
				}
				return
			}
			wantProblem(t, s, c.path, "")
		})
	}
}
