package desired

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/core/group"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/raced/synctest"
)

// TestARejectedConfigurationKeepsTheOldOne, and orders are obeyed all the same; none is before there
// is any configuration.
func TestARejectedConfigurationKeepsTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			did    []string
			wanted latestvalue.Value[*controlv1.Desired]
			fails  error
		)
		f := InForce{Slot: func() string { return "web-0" }, Log: slog.New(slog.DiscardHandler)}
		f.Apply = func(old, next *group.AgentConfig) error {
			if now, _ := f.Get(); now != old || now == next {
				t.Error("it is in force before it is applied")
			}
			did = append(did, "apply")
			return fails
		}
		f.Applied = func(now *group.AgentConfig) {
			if is, _ := f.Get(); is != now {
				t.Error("it is applied, and not in force")
			}
			did = append(did, "applied")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = f.Follow(ctx, &wanted, func(*lifecycle.Order) { did = append(did, "order") })
		}()
		config := func(slot string, hooks ...group.LifecycleHook) []byte {
			text, err := json.Marshal(group.AgentConfig{Group: "web", Slot: slot, LifecycleHooks: hooks})
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		one, two := group.LifecycleHook{Name: "one"}, group.LifecycleHook{Name: "two"}
		for _, step := range []struct {
			name  string
			text  []byte
			fails error
			did   []string
			hook  string
			fault bool
		}{
			{"none yet", nil, nil, nil, "", false},
			{"another slot's", config("web-1", one), nil, nil, "", true},
			{"the first", config("web-0", one), nil, []string{"apply", "applied", "order"}, "one", false},
			{"the same again", config("web-0", one), nil, []string{"order"}, "one", false},
			{"a configuration that cannot be applied", config("web-0", two), errors.New("no such driver"), []string{"apply", "order"}, "one", true},
			{"no text", nil, nil, []string{"order"}, "one", false},
			{"no JSON", []byte("{"), nil, []string{"order"}, "one", true},
			{"the second", config("web-0", two), nil, []string{"apply", "applied", "order"}, "two", false},
		} {
			did, fails = nil, step.fails
			wanted.Set(&controlv1.Desired{ConfigJson: step.text})
			synctest.Wait()
			hook := ""
			for _, h := range f.Hooks() {
				hook = h.Name
			}
			if !slices.Equal(did, step.did) || hook != step.hook || (f.Fault() != nil) != step.fault {
				t.Errorf("%s: %q with hook %q in force and fault %v; want %q with %q", step.name, did, hook, f.Fault(), step.did, step.hook)
			}
			if f.Text() != nil != (hook != "") {
				t.Errorf("%s: the text is %q with hook %q", step.name, f.Text(), hook)
			}
		}
	})
}
