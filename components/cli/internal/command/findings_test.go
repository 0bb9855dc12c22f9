package command

import (
	"strings"
	"testing"
)

// webCompose is a member of a group "web": Cadre's service and a workload's.
const webCompose = `services:
  cadre:
    image: example.org/cadre-agent@sha256:abababababababababababababababababababababababababababababababab
    network_mode: host
    restart: unless-stopped
    command: [--trust-file=/etc/cadre/trust.json, --revision-mark=CADRE_REVISION_MARK]
    environment:
      CADRE_GATEWAY_DOMAIN: ${CADRE_GATEWAY_DOMAIN}
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
      - cadre:/var/lib/cadre
      - mesh:/run/mesh
    tmpfs: [/run/cadre]
    configs:
      - source: trust
        target: /etc/cadre/trust.json
  app:
    image: example.org/app@sha256:abababababababababababababababababababababababababababababababab
configs:
  trust:
    content: '{}'
volumes:
  cadre:
  mesh:
    driver_opts: { type: tmpfs, device: tmpfs }
`

// webGroup is a group file with more lines in the group block, from line 9 on.
func webGroup(lines ...string) string {
	return `group "web" {
  replicas = 3
  template {
    compose       = file("compose.yaml")
    env           = { CADRE_GATEWAY_DOMAIN = "gw.example.org" }
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
  }
` + strings.Join(append(lines, "}\n"), "\n")
}

// findings are the lines of a command's output that are about something, without their indentation.
func findings(out string) []string {
	var lines []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.Contains(line, ": ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAWrongDurationNamesItsFieldAndHidesNothing(t *testing.T) {
	files(t, map[string]string{"compose.yaml": webCompose, "g.hcl": webGroup(
		`  lifecycle_hook "leave" {`,
		`    transition        = "PRE_TERMINATE"`,
		`    heartbeat_timeout = 300`,
		`    http {`,
		`      port = 80`,
		`      path = "leave"`,
		`    }`,
		`  }`,
		`  health_check "up" {`,
		`    tcp {`,
		`      port = "http"`,
		`    }`,
		`  }`,
		`  colour = "red"`,
	)})
	code, out := run(t, "group", "validate", "g.hcl")
	for _, want := range []string{
		`g.hcl:11: group web: lifecycle_hook["leave"].heartbeat_timeout: is 300 without a unit: write "300s", or another text such as "5m"`,
		`g.hcl:14: group web: lifecycle_hook["leave"].http.path: "leave" is not a request path`,
		`g.hcl:19: group web: health_check["up"].tcp.port: is "http": write a whole number`,
		`g.hcl:22: Unknown argument: "colour" is not known here`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no finding %q", want)
		}
	}
	if n := len(findings(out)); code != ExitRefused || n != 4 {
		t.Errorf("exit %d, %d findings:\n%s", code, n, out)
	}
}

func TestNamesThatEnvDoesNotSupplyAreReportedBeforeTheBoot(t *testing.T) {
	compose := strings.Replace(webCompose, "configs:\n  trust", "    environment:\n      DNS_TOKEN: ${DNS_TOKEN}\n      DB_HOST: ${DB_HOST:?is required}\n      REGION: ${REGION-eu}\nconfigs:\n  trust", 1)
	group := webGroup()
	files(t, map[string]string{
		"compose.yaml": compose, "none.hcl": group,
		"all.hcl":  strings.Replace(group, "env           = {", `env           = { DB_HOST = "db", DNS_TOKEN = "", COLOUR = "red",`, 1),
		"some.hcl": strings.Replace(group, "env           = {", `env           = { DB_HOST = "",`, 1),
	})
	for _, c := range []struct {
		file string
		code int
		want []string
	}{
		{"none.hcl", ExitRefused, []string{"none.hcl:4: group web: template.compose:21:16: error: services.app.environment.DB_HOST takes ${DB_HOST:?}, and env has no DB_HOST"}},
		{"some.hcl", ExitOK, []string{"template.compose:20:18: services.app.environment.DNS_TOKEN takes ${DNS_TOKEN}, and env has no DNS_TOKEN, so that it is empty: add DNS_TOKEN to env"}},
		{"all.hcl", ExitOK, []string{"template.env: COLOUR is taken nowhere in the compose text: remove it, or write ${COLOUR} where it is needed [env-unused]"}},
	} {
		code, out := run(t, "group", "validate", c.file)
		got := findings(out)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no finding %q", c.file, want)
			}
		}
		if code != c.code || len(got) != len(c.want) {
			t.Errorf("%s: exit %d\n%s", c.file, code, out)
		}
		if _, linted := run(t, "compose", "lint", c.file); !strings.Contains(linted, "[env-") {
			t.Errorf("%s: compose lint says\n%s", c.file, linted)
		}
	}
}

func TestAnUndeclaredVariableIsRefused(t *testing.T) {
	files(t, map[string]string{"compose.yaml": webCompose, "g.hcl": "variable \"release\" { default = \"1\" }\n" + webGroup("  restart_token = var.release"), "v": "release = \"3\"\ncolour = \"red\"\n"})
	code, out := run(t, "group", "validate", "g.hcl", "--var", "relaese=2")
	if want := `"relaese" is declared in no file; declared: release; did you mean "release"?`; code != ExitRefused || !strings.Contains(out, want) {
		t.Errorf("exit %d, want %s:\n%s", code, want, out)
	}
	if code, out := run(t, "group", "validate", "g.hcl", "--var-file", "v", "--var", "release=2"); code != ExitOK {
		t.Errorf("exit %d:\n%s", code, out)
	}
}
