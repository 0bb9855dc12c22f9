package declared

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/core/composetest"
	"go.yaml.in/yaml/v3"
)

// waiting is good with the script that waits for the program.
func waiting() string {
	text := strings.Replace(good, "    command: [/run/mesh/exec, --, postgres]\n",
		"    command: [/etc/cadre/exec.sh, --, postgres]\n    configs:\n      - { source: exec, target: /etc/cadre/exec.sh, mode: 0555 }\n", 1)
	return text + "configs:\n  exec:\n    content: |\n      " + strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(Script), "$", "$$"), "\n", "\n      ") + "\n"
}

func TestAServiceMayStartWithTheScriptThatWaits(t *testing.T) {
	if got, problems := Read(waiting()); got["db"]["ready"] == nil || len(problems) > 0 {
		t.Fatalf("%v, %v", got, problems)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"another script":       {"sleep 1; done", "sleep 2; done", "configs.exec"},
		"no script":            {"source: exec", "source: nothing", "services.db.configs"},
		"at another place":     {"target: /etc/cadre/exec.sh", "target: /etc/exec.sh", "services.db.configs"},
		"from the guest":       {"    content: |", "    file: /x\n    other: |", "configs.exec"},
		"nothing for it to do": {"[/etc/cadre/exec.sh, --, postgres]", "[/etc/cadre/exec.sh]", "services.db.command"},
	} {
		text := strings.Replace(waiting(), c.old, c.new, 1)
		got, problems := Read(text)
		if text == waiting() || got != nil || len(problems) == 0 || problems[0].Path != c.want && problems[len(problems)-1].Path != c.want {
			t.Errorf("%s: %v, %v; want a problem of %s", name, got, problems, c.want)
		}
	}
}

// TestShippedComposeTextsWaitWithoutEnd: no service that needs the agent depends on a
// check of it, and all of them wait by the same script.
func TestShippedComposeTextsWaitWithoutEnd(t *testing.T) {
	shared, err := filepath.Glob("../../../compose/*.yaml")
	if err != nil || len(shared) == 0 {
		t.Fatal(shared, err)
	}
	files, err := filepath.Glob("../../../clusters/*/compose/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	files = append(files, shared...)
	found := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Services map[string]struct {
				Command   yaml.Node
				DependsOn any `yaml:"depends_on"`
			}
			Configs map[string]struct{ Content string }
		}
		if err := yaml.Unmarshal([]byte(composetest.Plain(string(raw))), &doc); err != nil {
			t.Fatal(err)
		}
		if _, agent := doc.Services[Agent]; !agent {
			continue
		}
		for name, s := range doc.Services {
			// A list orders the starts and the stops. A map may wait for a check, and that wait has an end.
			if _, list := s.DependsOn.([]any); s.DependsOn != nil && !list {
				t.Errorf("%s: services.%s waits for another service, which has an end", file, name)
			}
			if name == Agent {
				continue
			}
			found++
			if len(s.Command.Content) == 0 || s.Command.Content[0].Value != Waiter {
				t.Errorf("%s: services.%s does not start with %s", file, name, Waiter)
			}
		}
		if got := strings.ReplaceAll(doc.Configs["exec"].Content, "$$", "$"); got != Script {
			t.Errorf("%s: configs.exec is\n%s\nwant\n%s", file, got, Script)
		}
	}
	if found < 5 {
		t.Errorf("looked at %d workloads", found)
	}
}
