package lint

import (
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
)

// commands is good with a command of its second service.
var commands = strings.NewReplacer(
	lastKeys, `    volumes:
      - mesh:/run/mesh
      - exec-web:/run/cadre-exec
    x-cadre:
      exec:
        drain: [/bin/drain, --now]
`,
	"      - cadre:/var/lib/cadre\n", "      - cadre:/var/lib/cadre\n      - exec-web:/run/cadre-exec/web\n",
	"  mesh:\n    driver", "  exec-web:\n    driver_opts: { type: tmpfs, device: tmpfs }\n  mesh:\n    driver",
).Replace(good)

// TestHK03_CommandsAreThoseOfTheComposeText: in the text they are literal and reach the
// service from the agent alone, and hooks and checks name no other ones; all that is wrong
// is said at once.
func TestHK03_CommandsAreThoseOfTheComposeText(t *testing.T) {
	if got := Lint([]byte(commands)); len(got) > 0 {
		t.Fatalf("a good text: %v", got)
	}
	change := func(old, with string) string {
		if strings.Count(commands, old) != 1 {
			t.Fatalf("%q stands not once", old)
		}
		return strings.Replace(commands, old, with, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"a variable":        {change("--now", `"${X}"`), "error exec 26:29"},
		"a shell's text":    {change("[/bin/drain, --now]", "/bin/drain --now"), "error exec 26:16"},
		"an unknown key":    {change("      exec:\n", "      run: [a]\n      exec:\n"), "error exec 25:7"},
		"another program":   {change("[/run/mesh/exec, --revision-mark=CADRE_REVISION_MARK, --,", "["), "error exec 20:14"},
		"no folder":         {change("      - exec-web:/run/cadre-exec\n", ""), "error exec 23:5"},
		"a third container": {change("configs:\n  trust", "  spy:\n    image: a"+digest+"\n    volumes: [exec-web:/x]\nconfigs:\n  trust"), "error exec 29:15"},
		"on a disk":         {change("  exec-web:\n    driver_opts: { type: tmpfs, device: tmpfs }\n", "  exec-web:\n"), "error exec 32:3"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}

	action := func(service, command string) *group.ExecAction {
		return &group.ExecAction{Service: service, Command: command}
	}
	spec := group.Spec{
		Template: group.Template{Compose: commands},
		LifecycleHooks: []group.LifecycleHook{
			{Name: "good", Exec: action("web", "drain")}, {Name: "a", Exec: action("web", "sh")}, {Name: "b", Exec: action("cadre", "drain")}, {Name: "c"},
		},
		HealthChecks: []group.HealthCheck{{Name: "d", Exec: action("nowhere", "drain")}},
	}
	var got []string
	for _, f := range Actions(spec) {
		got = append(got, f.File)
		if f.Code() != "EXEC_FORBIDDEN" || f.Severity != Error || f.Fix == "" {
			t.Errorf("finding %+v", f)
		}
	}
	want := []string{`lifecycle_hook["a"].exec.command`, `lifecycle_hook["b"].exec.service`, `health_check["d"].exec.service`}
	if !slices.Equal(got, want) {
		t.Errorf("findings at %q, want %q", got, want)
	}
	spec.Template.Compose = good
	if got := Actions(spec); len(got) != 4 {
		t.Errorf("a text without commands: %v", got)
	}
}

// TestAnAdaptersCommandsAreDeclared: each that its settings need is named, or the service once.
func TestAnAdaptersCommandsAreDeclared(t *testing.T) {
	adapter := func(service, hand string) []string {
		spec := group.Spec{Template: group.Template{Compose: commands}}
		spec.Workload = group.Workload{Kind: group.WorkloadCustom, Settings: map[string]string{"exec_service": service, "hand_over": hand}}
		var got []string
		for _, f := range Actions(spec) {
			got = append(got, f.File+": "+f.Message)
		}
		return got
	}
	const at = `workload.settings["exec_service"]: `
	if got, want := adapter("web", "stop"), []string{at + `"member" is not declared by service web`, at + `"undrain" is not declared by service web`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := adapter("web", "transfer"); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got, want := adapter("db", "transfer"), []string{at + `"db" declares no commands in the compose text`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
