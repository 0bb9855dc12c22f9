package daemon

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cadre.dev/local/internal/sandbox"
)

// TestServicesHaveTheCapabilitiesOfTheirFile: the service itself, and commands run in it.
func TestServicesHaveTheCapabilitiesOfTheirFile(t *testing.T) {
	s := start(t, t.TempDir())
	s.create("caps-0", `
services:
  none: {image: test/shell, network_mode: host, cap_drop: [ALL], command: [sh, -c, "grep CapEff /proc/self/status; exec sleep infinity"]}
  one: {image: test/shell, network_mode: host, cap_drop: [ALL], cap_add: [kill], command: [sh, -c, "grep CapEff /proc/self/status; exec sleep infinity"]}
`)
	for service, want := range map[string]string{"none": "CapEff:\t0000000000000000", "one": fmt.Sprintf("CapEff:\t%016x", 1<<unix.CAP_KILL)} {
		if got, _ := s.exec("caps-0", service, "grep CapEff /proc/self/status"); got != want {
			t.Errorf("run in %s: %q, want %q", service, got, want)
		}
		// Its main process is bubblewrap's first child.
		if got, _ := s.exec("caps-0", service, "grep CapEff /proc/2/status"); got != want {
			t.Errorf("%s itself: %q, want %q", service, got, want)
		}
	}
}

// TestACapabilityThatCannotBeGivenIsABootError: never a service with all of them.
func TestACapabilityThatCannotBeGivenIsABootError(t *testing.T) {
	s := start(t, t.TempDir())
	cases := map[string]string{"FLY": "is no capability", "ALL": "name what the service needs"}
	for _, name := range []string{"SYS_RESOURCE", "SYS_ADMIN", "SYS_MODULE", "SYS_TIME", "MAC_ADMIN", "SYSLOG", "BPF"} {
		if _, err := sandbox.Capabilities([]string{name}, nil); err != nil {
			cases[name] = "this machine may not give " + name
		}
	}
	for name, want := range cases {
		cvm := "cap-" + strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		p := s.api(200, "POST", "/cvms/provision", obj{"name": cvm, "compose_file": obj{"docker_compose_file": `
services:
  app: {image: test/shell, network_mode: host, command: [sleep, infinity], cap_add: [` + name + `]}
`}})
		s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
		v := s.settled(cvm)
		if text, _ := v["boot_error"].(string); v["status"] != "stopped" || !strings.Contains(text, "service app: cap_add: ") || !strings.Contains(text, want) {
			t.Errorf("%s: %v, boot_error %v", name, v["status"], v["boot_error"])
		}
	}
}
