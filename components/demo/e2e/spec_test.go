package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/demo/internal/rig"
)

// refusedCode is cadre's exit code for a rejection by validation or a policy.
const refusedCode = 3

// specValid is the Condition that says whether the stored spec can be used.
const specValid = "SpecValid"

// TestSpecThatCannotWork writes specs that can never work, through the CLI and directly into the KV
// store: nothing changes, and each problem is reported with its field.
func TestSpecThatCannotWork(t *testing.T) {
	c := ready(t)
	before := c.look(t)
	stored, err := c.api.Group(within(t, time.Minute), rig.Light)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("command line", func(t *testing.T) {
		unknown := c.edited(t, "max_unavailable_fixed", "max_unavailble_fixed")
		for name, try := range map[string]struct {
			file  string
			flags []string
			want  []string
		}{
			"an unknown field":        {file: unknown, want: []string{"max_unavailble_fixed"}},
			"both budgets zero":       {flags: []string{"--var", "max_unavailable=0"}, want: []string{"update_policy.max_unavailable_fixed", "R15"}},
			"an image without digest": {flags: []string{"--var", "light_image=cadre/light:1"}, want: []string{"template.compose", "not pinned"}},
			"two problems at once": {flags: []string{"--var", "max_unavailable=0", "--var", "light_image=cadre/light:1"},
				want: []string{"update_policy.max_unavailable_fixed", "template.compose"}},
		} {
			file := try.file
			if file == "" {
				file = c.LightFile()
			}
			out, err := c.ApplyLight(within(t, time.Minute), file, "never", try.flags...)
			if exitCode(err) != refusedCode {
				t.Errorf("%s: exit code %d, want %d: %v", name, exitCode(err), refusedCode, err)
			}
			for _, want := range try.want {
				if !strings.Contains(out, want) {
					t.Errorf("%s: the output does not name %q:\n%s", name, want, out)
				}
			}
		}
		now, err := c.api.Group(within(t, time.Minute), rig.Light)
		if err != nil || now.Index != stored.Index {
			t.Errorf("the spec has index %d, had %d: %v", now.Index, stored.Index, err)
		}
	})

	t.Run("plain KV edit", func(t *testing.T) {
		for name, try := range map[string]struct {
			edit func(map[string]any)
			want []string
		}{
			"values that cannot work": {want: []string{"update_policy.max_unavailable_fixed", "template.compose"}, edit: func(spec map[string]any) {
				spec["update_policy"].(map[string]any)["max_unavailable_fixed"] = 0
				template := spec["template"].(map[string]any)
				template["compose"] = strings.ReplaceAll(template["compose"].(string), "@sha256:", ":v")
			}},
			"a compose text that lint refuses": {want: []string{"template.compose", "guest-socket", "COMPOSE_FORBIDDEN"}, edit: func(spec map[string]any) {
				template := spec["template"].(map[string]any)
				spy := "services:\n  spy:\n    image: cadre/spy@sha256:" + strings.Repeat("a", 64) + "\n    volumes: [\"/var/run/dstack.sock:/x\"]\n"
				template["compose"] = strings.Replace(template["compose"].(string), "services:\n", spy, 1)
			}},
			"an unknown field": {want: []string{"update_policy.max_unavailble_fixed"}, edit: func(spec map[string]any) {
				spec["update_policy"].(map[string]any)["max_unavailble_fixed"] = 1
			}},
		} {
			c.putSpec(t, stored.Spec, try.edit)
			var status group.Status
			eventually(t, name+" shows in the status", time.Minute, func(ctx context.Context) error {
				g, err := c.api.Group(ctx, rig.Light)
				if err != nil {
					return err
				}
				status = g.Status
				if status.ObservedIndex < g.Index {
					return fmt.Errorf("the status speaks of index %d, the spec has %d", status.ObservedIndex, g.Index)
				}
				return nil
			})
			at := slices.IndexFunc(status.Conditions, func(c group.Condition) bool { return c.Type == specValid })
			if at < 0 || status.Conditions[at].Status {
				t.Fatalf("%s: no condition says that the spec is not valid: %+v", name, status.Conditions)
			}
			for _, want := range try.want {
				if text := status.Conditions[at].Message; !strings.Contains(text, want) {
					t.Errorf("%s: the condition does not name %s: %s", name, want, text)
				}
			}
			if status.Target != stored.Status.Target || status.Rollout != stored.Status.Rollout || status.Available != 3 {
				t.Errorf("%s: target %s, rollout %s, %d available; want %s, %s, 3", name,
					status.Target, status.Rollout, status.Available, stored.Status.Target, stored.Status.Rollout)
			}
			// A waiting client is informed at once, not at its timeout.
			var stopped *client.RolloutError
			if err := c.api.Wait(within(t, 20*time.Second), rig.Light, client.WaitOptions{Index: status.ObservedIndex}); !errors.As(err, &stopped) {
				t.Errorf("%s: waiting for the group ends with %v, want the reason", name, err)
			}
		}
		c.wantUpdates(t, rig.Light, before, nil)
	})

	t.Run("corrected", func(t *testing.T) {
		c.roll(t)
		c.wantOneUpdateEach(t, rig.Light, before)
		g, err := c.api.Group(within(t, time.Minute), rig.Light)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(g.Status.Conditions, func(c group.Condition) bool { return c.Type == specValid && !c.Status }) {
			t.Errorf("the status still says that the spec is not valid: %+v", g.Status.Conditions)
		}
	})
}

// edited is the light group's file with some texts replaced: pairs of an old one and a new one.
func (c *cluster) edited(t *testing.T, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(c.LightFile())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s has no text %q to replace", c.LightFile(), pairs[i])
		}
	}
	compose := filepath.Join(c.Root, "compose") + string(filepath.Separator)
	changed := strings.NewReplacer(append(pairs, "../../compose/", compose)...).Replace(string(text))
	file := filepath.Join(t.TempDir(), "light.hcl")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// putSpec writes the group's record with Consul's own tool and the operator's
// token, as an operator does who has no other tool at hand.
func (c *cluster) putSpec(t *testing.T, spec group.Spec, edit func(map[string]any)) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	edit(fields)
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Exec(within(t, time.Minute), c.PlatformName("coordinator-0"), coordinatorService,
		"consul", "kv", "put", "-token="+c.api.Context().Token, "cadre/v1/groups/"+rig.Light+"/spec", string(text)); err != nil {
		t.Fatalf("consul kv put: %v: %s", err, out)
	}
}
