package daemon

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// waiter is the script that every shipped workload starts with.
func waiter(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../../../compose/light.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "  exec:\n    content: |\n")
	var script strings.Builder
	for line := range strings.Lines(rest) {
		text, inside := strings.CutPrefix(line, "      ")
		if !inside {
			break
		}
		script.WriteString(text)
	}
	if script.Len() == 0 {
		t.Fatal("compose/light.yaml has no script at configs.exec")
	}
	return strings.ReplaceAll(script.String(), "$$", "$")
}

// TestAWorkloadWaitsForItsAgentWithoutEnd: the services start in any order; the workload
// becomes the agent's program whenever that is there, and a stop ends the waiting at once.
func TestAWorkloadWaitsForItsAgentWithoutEnd(t *testing.T) {
	s := start(t, t.TempDir())
	content, err := json.Marshal(strings.ReplaceAll(waiter(t), "$", "$$"))
	if err != nil {
		t.Fatal(err)
	}
	s.create("late-0", `
services:
  cadre:
    image: test/shell
    network_mode: host
    restart: always
    command: [sleep, infinity]
    volumes: [mesh:/run/mesh]
  web:
    image: test/shell
    network_mode: host
    restart: always
    stop_grace_period: 1000s
    command: [/etc/cadre/exec.sh, --, "two words"]
    volumes: [mesh:/run/mesh]
    configs: [{source: exec, target: /etc/cadre/exec.sh, mode: 0555}]
configs: {exec: {content: `+string(content)+`}}
volumes: {mesh: {driver_opts: {type: tmpfs, device: tmpfs}}}
`)
	web := func() obj {
		for _, v := range s.local(200, "GET", "/cvms/late-0", nil)["services"].([]any) {
			if v.(obj)["name"] == "web" {
				return v.(obj)
			}
		}
		return nil
	}
	if v := s.local(200, "GET", "/cvms/late-0", nil); v["boot_error"] != "" || web()["state"] != "running" || web()["restarts"] != 0.0 {
		t.Fatalf("while its agent is away: %v, %v", v["boot_error"], web())
	}
	// It stops while it waits, long before its grace, or this test ends by its deadline.
	s.api(200, "POST", "/cvms/late-0/restart", obj{})
	s.up("late-0")
	if out, code := s.exec("late-0", "cadre", "ls /run/mesh | wc -l"); code != 0 || out != "0" {
		t.Fatalf("the folder of another boot: %q, %d", out, code)
	}
	if out, code := s.exec("late-0", "cadre", `
		printf '#!/bin/sh\necho "$#:$2" > /run/mesh/came\nexec sleep infinity\n' > /run/mesh/.exec &&
		chmod 755 /run/mesh/.exec && mv /run/mesh/.exec /run/mesh/exec`); code != 0 {
		t.Fatalf("exec not placed: %q", out)
	}
	s.until("the workload runs", func() bool {
		out, code := s.exec("late-0", "cadre", "cat /run/mesh/came")
		return code == 0 && out == "2:two words"
	})
	if v := web(); v["state"] != "running" || v["restarts"] != 0.0 {
		t.Errorf("after the wait: %v", v)
	}
}

// TestAFailedCheckDelaysItsDependant: compose would give the dependant up at the second failed
// check. Here it starts when the check passes at last, and meanwhile the boot says why not.
func TestAFailedCheckDelaysItsDependant(t *testing.T) {
	s := start(t, t.TempDir())
	p := s.api(200, "POST", "/cvms/provision", obj{"name": "slow-0", "compose_file": obj{"docker_compose_file": `
services:
  base:
    image: test/shell
    network_mode: host
    restart: always
    command: [sh, -c, "echo not yet; exec sleep infinity"]
    volumes: [mesh:/run/mesh]
    healthcheck: {test: [CMD, test, -e, /run/mesh/now], interval: 20ms, retries: 2}
  web:
    image: test/shell
    network_mode: host
    restart: always
    command: [sleep, infinity]
    depends_on: {base: {condition: service_healthy}}
volumes: {mesh: {driver_opts: {type: tmpfs, device: tmpfs}}}
`}})
	s.api(200, "POST", "/cvms", obj{"app_id": p["app_id"], "compose_hash": p["compose_hash"]})
	boot := func(field string) string {
		_, v := s.call("GET", s.file.LocalURL+"/cvms/slow-0", nil)
		text, _ := v[field].(string)
		return text
	}
	const why = `service web: depends on base, which is unhealthy (its last line: "not yet")`
	s.until("the boot says what it waits for", func() bool { return strings.HasSuffix(boot("boot_progress"), why) })
	if got := boot("boot_error"); got != "" {
		t.Errorf("boot error %q while it is tried again", got)
	}
	if out, code := s.exec("slow-0", "base", "touch /run/mesh/now"); code != 0 {
		t.Fatal(out)
	}
	s.up("slow-0")
}
