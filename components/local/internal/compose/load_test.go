package compose

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

const good = `
services:
  web:
    image: cadre/web:1@sha256:00
    command: serve --port ${PORT:-80} $$HOME
    user: "1000:1000"
    network_mode: host
    environment:
      MODE: ${MODE}
      PASSED:
      ABSENT:
    ports: ["80:80"]
    volumes:
      - data:/data
      - mesh:/run/mesh:ro
      - /var/run/dstack.sock:/var/run/dstack.sock
      - type: tmpfs
        target: /scratch
        tmpfs: {size: 1m}
    configs:
      - source: conf
        target: /etc/web.conf
    depends_on:
      db: {condition: service_healthy}
      init: {condition: service_completed_successfully}
    restart: unless-stopped
    stop_signal: INT
    stop_grace_period: 3s
    extra_hosts: ["db.local:127.50.0.1"]
    ulimits: {nofile: {soft: 1024, hard: 4096}}
  db:
    image: db
    network_mode: host
    entrypoint: ["/bin/db"]
    healthcheck: {test: "db ping", interval: 2s, retries: 5, start_period: 10s}
    tmpfs: ["/var/lib/x:size=2m,mode=700"]
  init:
    image: init
    network_mode: host
    command: []
    restart: on-failure:3
volumes:
  data: {}
  mesh: {driver_opts: {type: tmpfs, device: tmpfs, o: "size=1m"}}
configs:
  conf:
    content: |
      mode=${MODE} price=$$5
`

func TestLoadHonoursWhatTheFileSays(t *testing.T) {
	app, err := Load(t.Context(), []byte(good), map[string]string{"MODE": "fast", "PASSED": "p"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range app.Services {
		names = append(names, s.Name)
	}
	if want := []string{"db", "init", "web"}; !reflect.DeepEqual(names, want) {
		t.Errorf("start order = %v, want %v", names, want)
	}
	web := app.Services[2]
	if want := []string{"serve", "--port", "80", "$HOME"}; !reflect.DeepEqual(web.Command, want) {
		t.Errorf("command = %q, want %q", web.Command, want)
	}
	if want := map[string]string{"MODE": "fast", "PASSED": "p"}; !reflect.DeepEqual(web.Env, want) {
		t.Errorf("env = %v, want %v", web.Env, want)
	}
	want := []Mount{
		{Kind: MountVolume, Source: "data", Target: "/data"},
		{Kind: MountVolume, Source: "mesh", Target: "/run/mesh", ReadOnly: true},
		{Kind: MountGuest, Target: "/var/run/dstack.sock"},
		{Kind: MountTmpfs, Target: "/scratch", Size: 1 << 20},
		{Kind: MountConfig, Target: "/etc/web.conf", ReadOnly: true, Mode: 0o444, Content: "mode=fast price=$5\n"},
	}
	if !reflect.DeepEqual(web.Mounts, want) {
		t.Errorf("mounts = %+v\nwant     %+v", web.Mounts, want)
	}
	if web.StopSignal != syscall.SIGINT || web.StopGrace != 3*time.Second || web.Restart != RestartUnlessStopped {
		t.Errorf("stop %v %v restart %v", web.StopSignal, web.StopGrace, web.Restart)
	}
	if web.Limits["nofile"] != "1024:4096" || len(web.Hosts) != 1 || web.Hosts[0] != "127.50.0.1 db.local" {
		t.Errorf("limits %v hosts %v", web.Limits, web.Hosts)
	}
	db, init := app.Services[0], app.Services[1]
	if want := []string{"/bin/sh", "-c", "db ping"}; db.Health == nil || !reflect.DeepEqual(db.Health.Test, want) || db.Health.Retries != 5 {
		t.Errorf("health = %+v", db.Health)
	}
	if m := db.Mounts[0]; m.Size != 2<<20 || m.Mode != 0o700 {
		t.Errorf("tmpfs = %+v", m)
	}
	if init.Command == nil || len(init.Command) != 0 || db.Command != nil || init.MaxRetries != 3 {
		t.Errorf("cleared command %v, absent command %v, retries %d", init.Command, db.Command, init.MaxRetries)
	}
	if !app.Volumes["mesh"].Tmpfs || app.Volumes["mesh"].Options != "size=1m" || app.Volumes["data"].Tmpfs {
		t.Errorf("volumes = %+v", app.Volumes)
	}
	if notes := strings.Join(app.Notes, "\n"); !strings.Contains(notes, "service web: ports ignored") {
		t.Errorf("notes = %q, want the ignored ports named", notes)
	}
}

func TestLoadRefusesWhatItCannotHonour(t *testing.T) {
	service := func(lines string) string {
		return "services:\n  app:\n    image: x\n    network_mode: host\n    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ") + "\n"
	}
	for name, tc := range map[string]struct{ in, want string }{
		"no network mode":        {"services:\n  app:\n    image: x\n", "service app: network_mode"},
		"bridge network":         {"services:\n  app:\n    image: x\n    network_mode: bridge\n", "service app: network_mode"},
		"networks":               {"services:\n  app: {image: x, networks: [a]}\nnetworks: {a: {}}\n", "service app: networks"},
		"privileged":             {service("privileged: true"), "service app: privileged"},
		"devices":                {service("devices: ['/dev/kvm:/dev/kvm']"), "service app: devices"},
		"pid host":               {service("pid: host"), "service app: pid"},
		"sysctls":                {service("sysctls: {a: '1'}"), "service app: sysctls"},
		"build":                  {service("build: ."), "service app: build"},
		"tty":                    {service("tty: true"), "service app: tty"},
		"env_file":               {service("env_file: [{path: .env, required: false}]"), "service app: env_file"},
		"bind of a host":         {service("volumes: ['/etc:/host']"), "bind mount of /etc"},
		"docker socket":          {service("volumes: ['/var/run/docker.sock:/var/run/docker.sock']"), "bind mount of /var/run/docker.sock"},
		"relative bind":          {service("volumes: ['./data:/data']"), "bind mount"},
		"secrets":                {service("secrets: [s]") + "secrets: {s: {environment: S}}\n", "service app: secrets"},
		"config file":            {service("configs: [{source: c, target: /c}]") + "configs: {c: {file: ./c}}\n", "only inline content"},
		"replicas":               {service("deploy: {replicas: 2}"), "deploy.replicas"},
		"post_start hook":        {service("post_start: [{command: x}]"), "service app: post_start"},
		"bad signal":             {service("stop_signal: SIGFOO"), "service app: stop_signal"},
		"external volume":        {service("volumes: ['v:/v']") + "volumes: {v: {external: true}}\n", "volumes.v: external"},
		"volume driver":          {service("volumes: ['v:/v']") + "volumes: {v: {driver: nfs}}\n", "volumes.v: driver"},
		"volume opts":            {service("volumes: ['v:/v']") + "volumes: {v: {driver_opts: {type: none, device: /etc, o: bind}}}\n", "driver_opts.type"},
		"checks without a pause": {service("healthcheck: {test: [CMD, x], interval: 1ns}"), "shorter than 1ms"},
		"a log of the CVM":       {"services: {cvm: {image: x, network_mode: host}}", "service cvm: name"},
		"target twice":           {service("tmpfs: ['/x']\nvolumes: ['/x']"), "already mounted"},
		"unconfined":             {service("security_opt: ['seccomp:unconfined']"), "security_opt"},
		"required variable":      {service("command: ${NEEDED:?is needed}"), "is needed"},
		"not yaml":               {"services: [", "compose file"},
		"unknown key":            {service("comand: x"), "comand"},
		"nothing to run":         {"services: {}\n", "there is none"},
		"circle":                 {"services:\n  a: {image: x, network_mode: host, depends_on: [b]}\n  b: {image: x, network_mode: host, depends_on: [a]}\n", "cycle"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(t.Context(), []byte(tc.in), nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want one naming %q", err, tc.want)
			}
		})
	}
}

func TestAnonymousVolumesAreApart(t *testing.T) {
	app, err := Load(t.Context(), []byte("services:\n"+
		"  a: {image: x, network_mode: host, volumes: [/b/c]}\n"+
		"  a-b: {image: x, network_mode: host, volumes: [/c]}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(app.Volumes) != 2 || app.Services[0].Mounts[0].Source == app.Services[1].Mounts[0].Source {
		t.Errorf("volumes = %+v of %+v", app.Volumes, app.Services)
	}
}
