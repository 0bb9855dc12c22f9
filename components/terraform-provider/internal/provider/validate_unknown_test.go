package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/core/group"
	"cadre.dev/raced"
	"cadre.dev/terraform-provider/internal/shape"
)

// commanded is a compose text one of whose services has commands.
var commanded = strings.ReplaceAll(`services:
  cadre:
    image: example.org/agent@DIGEST
    network_mode: host
    restart: unless-stopped
    command: [--trust-file=/etc/cadre/trust.json, --revision-mark=CADRE_REVISION_MARK]
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
      - cadre:/var/lib/cadre
      - mesh:/run/mesh
      - exec-web:/run/cadre-exec/web
    configs:
      - source: trust
        target: /etc/cadre/trust.json
  web:
    image: example.org/web@DIGEST
    command: [/run/mesh/exec, --, web]
    volumes:
      - mesh:/run/mesh
      - exec-web:/run/cadre-exec
    x-cadre:
      exec:
        drain: [/bin/drain, --now]
configs:
  trust:
    content: '{"cluster":"demo"}'
volumes:
  cadre:
  exec-web:
    driver_opts: { type: tmpfs, device: tmpfs }
  mesh:
    driver_opts: { type: tmpfs, device: tmpfs }
`, "DIGEST", "sha256:"+strings.Repeat("a", 64))

// entangled is a valid group in which each field depends on others, where a rule reads others at
// all.
func entangled() group.Spec {
	s := soundSpec()
	attempts := 2
	s.Without, s.UpdatePolicy.Partition = []string{"web-1"}, 4
	s.Template.Compose = commanded
	s.Template.Env = map[string]string{"COLOR": "blue", "APP_PASSWORD": "said in public"}
	s.Meta = map[string]string{"META_PASSWORD": "said in public"}
	s.Instances = []group.InstanceSettings{{Ordinal: 0, Env: map[string]string{"COLOR": "red"}, Metadata: map[string]string{"ONE_PASSWORD": "said in public"}}}
	s.NotSecret = []string{"APP_PASSWORD", "META_PASSWORD", "ONE_PASSWORD"}
	s.Workload = group.Workload{Kind: "consul", Settings: map[string]string{"http_addr": "127.0.0.1:8510"}}
	s.LifecycleHooks = append(s.LifecycleHooks, group.LifecycleHook{Name: "own", Transition: group.PreTerminate, Exec: &group.ExecAction{Service: "web", Command: "drain"}})
	s.HealthChecks = append(s.HealthChecks, group.HealthCheck{Name: "own", Exec: &group.ExecAction{Service: "web", Command: "drain"}})
	s.AutoHealing = &group.AutoHealing{HealthCheck: "ready", Service: "web"}
	s.RestartPolicy = group.RestartPolicy{On: []string{group.OnUnhealthy}, MaxAttempts: &attempts}
	s.Backends = []group.Backend{{Name: "api", Port: 8081}}
	s.Routes = []group.Route{{Name: "web-leader", Backend: "api", Role: "leader"}}
	s.Secrets = []group.Secret{{Name: "own"}}
	s.ConsulPermissions = group.ConsulPermissions{KeyPrefixes: []string{"service/web/"}}
	return s
}

// A group that may be valid is never refused for an unknown value: a whole argument or block, or a
// part of one. The race detector's run tries each tenth part, because the parts are tried one after
// the other.
func TestNoSingleUnknownIsAReasonToRefuse(t *testing.T) {
	voters := entangled()
	voters.Replicas, voters.UpdatePolicy.Partition, voters.UpdatePolicy.Interruption = 2, 0, group.InterruptionAllow
	voters.AutoHealing = &group.AutoHealing{Service: "web"}
	none := entangled()
	none.NotSecret, none.Template.Env, none.Meta = []string{"ONE_PASSWORD"}, map[string]string{"COLOR": "blue"}, nil
	tried := 0
	for what, spec := range map[string]group.Spec{"entangled": entangled(), "two voters": voters, "a slot's own alone": none} {
		if got := validate(t, spec, nil); len(got) > 0 {
			t.Fatalf("%s is not sound: %v", what, got[0])
		}
		values, err := shape.Values(specFields, shape.Trim(specFields, plain(spec)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range specFields {
			parts := unknownParts(t, values[f.Name])
			for _, part := range slices.Sorted(maps.Keys(parts)) {
				if tried++; raced.Enabled && tried%10 != 0 {
					continue
				}
				for _, d := range validate(t, spec, func(o object) { o[f.Name] = parts[part] }) {
					t.Errorf("%s, with %s%s unknown: %s", what, f.Name, part, d.Detail)
				}
			}
		}
	}
}

// unknownParts are v with itself unknown, and with each text, number and flag in it.
func unknownParts(t *testing.T, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	out := map[string]tftypes.Value{"": tftypes.NewValue(v.Type(), tftypes.UnknownValue)}
	err := tftypes.Walk(v, func(at *tftypes.AttributePath, one tftypes.Value) (bool, error) {
		single := one.Type().Is(tftypes.String) || one.Type().Is(tftypes.Number) || one.Type().Is(tftypes.Bool)
		if !single || one.IsNull() {
			return true, nil
		}
		part, err := tftypes.Transform(v, func(there *tftypes.AttributePath, same tftypes.Value) (tftypes.Value, error) {
			if there.Equal(at) {
				return tftypes.NewValue(same.Type(), tftypes.UnknownValue), nil
			}
			return same, nil
		})
		out[" "+at.String()] = part
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
