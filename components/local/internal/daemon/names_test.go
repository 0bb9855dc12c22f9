package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/imagetest"
)

// TestNamesReachAServiceOfAnyUser: with the compose file of docs/guides/compose.md the names of Peers and
// routes come and go in a container whose workload is not root. Without it, and on a read-only
// root, the service runs and reports the missing part.
func TestNamesReachAServiceOfAnyUser(t *testing.T) {
	shelf := newShelf(t)
	app := shelf.add("app", v1.Config{Entrypoint: []string{"/bin/probe"}, User: "app", Env: []string{"PATH=/bin"}},
		append([]imagetest.Entry{imagetest.Dir("etc", 0o755, 0, 0), imagetest.Dir("run", 0o755, 0, 0)}, people...)...)
	program := imagetest.Static(t, "cadre.dev/exec/cmd/cadre-exec", "cadre-exec")
	s := start(t, t.TempDir(), shelf.use, func(c *Config) {
		shell := c.Images.Images["test/shell"]
		shell.Mounts = append([]string{filepath.Dir(program)}, shell.Mounts...)
		c.Images.Images["test/agent"] = images.Image{Env: shell.Env, Mounts: shell.Mounts}
	})
	service := func(name, more string) string {
		return `
  ` + name + `:
    image: ` + app + `
    network_mode: host
    volumes: [mesh:/run/mesh]
    depends_on: {cadre: {condition: service_healthy}}
` + more
	}
	v := s.create("names-0", `
services:
  cadre:
    image: test/agent
    network_mode: host
    command: [sh, -c, "cat `+program+` > /run/mesh/exec && chmod 755 /run/mesh/exec && echo \"CADRE_SLOT='app-0'\" > /run/mesh/env && echo 127.50.0.1 app-0 > /run/mesh/hosts && > /run/mesh/ready; exec sleep infinity"]
    volumes: [mesh:/run/mesh]
    healthcheck: {test: [CMD, test, -e, /run/mesh/ready], interval: 20ms, retries: 1000}
`+service("user", `    user: "0:0"
    group_add: [more]
    entrypoint: [/run/mesh/exec, --hosts, --user=app, --, /bin/probe]
    command: [id, caps, wait]
`)+service("plain", `    entrypoint: [/run/mesh/exec, --hosts, --, /bin/probe]
    command: [id, wait]
`)+service("fixed", `    user: "0:0"
    read_only: true
    entrypoint: [/run/mesh/exec, --hosts, --user=app, --, /bin/probe]
    command: [id, wait]
`)+`volumes: {mesh: {driver_opts: {type: tmpfs, device: tmpfs}}}
`)
	hosts := func(service string) string {
		text, _ := s.probed("names-0", service, "cat", "/etc/hosts")
		return text
	}
	mesh := func(script string) {
		t.Helper()
		if out, code := s.exec("names-0", "cadre", "cd /run/mesh && "+script); code != 0 {
			t.Fatalf("%s: %s", script, out)
		}
	}
	s.until("the services run", func() bool {
		return strings.Contains(s.log(v, "user"), "waits") && strings.Contains(s.log(v, "plain"), "waits") && strings.Contains(s.log(v, "fixed"), "waits")
	})
	if got := s.log(v, "user"); !strings.Contains(got, "probe 1234 2345 [2345 3456 4567] / /home/app \nCapEff: 0000000000000000\n") {
		t.Errorf("the workload is %q", got)
	}
	if got := hosts("user"); !strings.Contains(got, "localhost") || !strings.HasSuffix(got, "\n127.50.0.1 app-0 # cadre") {
		t.Errorf("hosts at the start: %q", got)
	}
	mesh("(cat hosts; echo 127.10.0.1 db-master) > .h && mv .h hosts")
	s.until("the route's name comes", func() bool { return strings.Contains(hosts("user"), "\n127.10.0.1 db-master # cadre") })
	mesh("echo 127.50.0.1 app-0 > .h && mv .h hosts")
	s.until("it goes", func() bool { return strings.Contains(hosts("user"), "\n#27.10.0.1 db-master # cadre") })
	for service, want := range map[string]string{"plain": "with --user before --", "fixed": "a service with read_only: true cannot have them"} {
		if got := s.log(v, service); strings.Count(got, "/etc/hosts lacks names") != 1 || !strings.Contains(got, want) {
			t.Errorf("%s says %q", service, got)
		}
	}
	for _, service := range s.local(200, "GET", "/cvms/names-0", nil)["services"].([]any) {
		if one := service.(obj); one["state"] != "running" || one["restarts"] != 0.0 {
			t.Errorf("%v", one)
		}
	}
}
