package lint_test

import (
	"strings"
	"testing"

	"cadre.dev/compose/lint"
	"cadre.dev/core/group"
)

const restartable = `services:
  cadre:
    image: agent
    volumes: [exec-db:/run/cadre-exec/db]
  db:
    image: db
    command: [/run/mesh/exec, --, db]
    volumes: [exec-db:/run/cadre-exec]
    x-cadre:
      exec: {}
  web:
    image: web
volumes:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`

// TestHealingRestartsWhatCanBe: a service with the key, also one without commands.
func TestHealingRestartsWhatCanBe(t *testing.T) {
	for service, refused := range map[string]bool{"": false, "db": false, "web": true, "none": true} {
		spec := group.Spec{Template: group.Template{Compose: restartable}, AutoHealing: &group.AutoHealing{Service: service}}
		found := lint.Actions(spec)
		if refused != (len(found) == 1) || refused && (found[0].File != "auto_healing_policies.service" || !strings.Contains(found[0].Message, service)) {
			t.Errorf("service %q: %+v", service, found)
		}
	}
}
