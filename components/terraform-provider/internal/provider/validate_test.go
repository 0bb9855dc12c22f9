package provider

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/compose/lint"
	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

func soundSpec() group.Spec {
	return group.Spec{
		Name: "web", Replicas: 3,
		Template: group.Template{
			Compose:      "services:\n  web:\n    image: example.org/web@sha256:" + strings.Repeat("a", 64) + "\n",
			InstanceType: "tdx.small", OSImage: "dstack-0.5.11",
		},
		LifecycleHooks: []group.LifecycleHook{
			{Name: "drain", Transition: group.PreTerminate, HTTP: &group.HTTPAction{Port: 8080, Path: "/drain"}},
			{Name: "hold", Transition: group.PostLaunch, Wait: &group.WaitAction{}},
		},
		HealthChecks: []group.HealthCheck{{Name: "ready", HTTP: &group.HTTPCheck{Port: 8080, RequestPath: "/"}}},
	}
}

var validating struct {
	once   sync.Once
	server tfprotov6.ProviderServer
	typ    tftypes.Object
	err    error
}

// validator is one provider for all questions, as in one run of Terraform, and the type of a group.
func validator(t *testing.T) (tfprotov6.ProviderServer, tftypes.Object) {
	t.Helper()
	v := &validating
	v.once.Do(func() {
		if v.server, v.err = providerserver.NewProtocol6WithError(New("test")())(); v.err != nil {
			return
		}
		schemas, err := v.server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
		if v.err = err; err == nil {
			v.typ = schemas.ResourceSchemas["cadre_group"].ValueType().(tftypes.Object)
		}
	})
	if v.err != nil {
		t.Fatal(v.err)
	}
	return v.server, v.typ
}

// validate asks the provider for the problems of a group, like Terraform; change may make parts of
// it unknown.
func validate(t *testing.T, spec group.Spec, change func(object)) []*tfprotov6.Diagnostic {
	t.Helper()
	server, typ := validator(t)
	values, err := shape.Values(specFields, shape.Trim(specFields, plain(spec)))
	if err != nil {
		t.Fatal(err)
	}
	o := object(values)
	for name, one := range typ.AttributeTypes {
		if _, ok := o[name]; !ok {
			o[name] = tftypes.NewValue(one, nil)
		}
	}
	if change != nil {
		change(o)
	}
	config, err := tfprotov6.NewDynamicValue(typ, tftypes.NewValue(typ, map[string]tftypes.Value(o)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{TypeName: "cadre_group", Config: &config})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Diagnostics
}

func TestValidateSaysWhatGroupApplyWouldSay(t *testing.T) {
	if got := validate(t, soundSpec(), nil); len(got) > 0 {
		t.Fatalf("a sound group: %v", got[0])
	}
	many, two := group.MaxReplicas, 0
	for path, change := range map[string]func(*group.Spec){
		`AttributeName("replicas")`:                                                                    func(s *group.Spec) { s.Replicas = 0 },
		`AttributeName("template").AttributeName("compose")`:                                           func(s *group.Spec) { s.Template.Compose += "    privileged: true\n" },
		`AttributeName("template").AttributeName("instance_type")`:                                     func(s *group.Spec) { s.Template.InstanceType = "" },
		`AttributeName("template").AttributeName("env").ElementKeyString("LD_PRELOAD")`:                func(s *group.Spec) { s.Template.Env = map[string]string{"LD_PRELOAD": "x"} },
		`AttributeName("update_policy").AttributeName("max_unavailable_fixed")`:                        func(s *group.Spec) { s.UpdatePolicy.MaxUnavailableFixed = &two },
		`AttributeName("update_policy").AttributeName("max_surge_fixed")`:                              func(s *group.Spec) { s.UpdatePolicy.MaxSurgeFixed = &many },
		`AttributeName("lifecycle_hook").ElementKeyInt(0).AttributeName("http").AttributeName("port")`: func(s *group.Spec) { s.LifecycleHooks[0].HTTP.Port = 0 },
		`AttributeName("lifecycle_hook").ElementKeyInt(1)`:                                             func(s *group.Spec) { s.LifecycleHooks[1].Wait = nil },
		`AttributeName("health_check").ElementKeyInt(0).AttributeName("timeout_sec")`:                  func(s *group.Spec) { s.HealthChecks[0].TimeoutSec = 11 },
		`AttributeName("workload").AttributeName("kind")`:                                              func(s *group.Spec) { s.Workload.Kind = "consol" },
		`AttributeName("workload").AttributeName("settings").ElementKeyString("port")`: func(s *group.Spec) {
			s.Workload = group.Workload{Kind: "consul", Settings: map[string]string{"port": "1"}}
		},
		`AttributeName("backend").ElementKeyInt(0).AttributeName("allow").ElementKeyInt(0)`: func(s *group.Spec) { s.Backends = []group.Backend{{Name: "b", Port: 81, Allow: []string{"Not"}}} },
		`AttributeName("name")`: func(s *group.Spec) { s.Name = "-" },
	} {
		s := soundSpec()
		change(&s)
		want := []string{}
		for _, r := range lint.Refusals(s, nil) {
			want = append(want, r.Text)
		}
		got, at := []string{}, []string{}
		for _, d := range validate(t, s, nil) {
			got = append(got, d.Detail)
			at = append(at, d.Attribute.String())
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, `cadre group validate` says %q", path, got, want)
		}
		if !slices.Contains(at, path) {
			t.Errorf("shown at %v, want %s", at, path)
		}
	}
}

// An unknown value is no reason to refuse, and hides no problem of known values.
func TestValidateWaitsForWhatIsNotKnown(t *testing.T) {
	unknownCompose := func(o object) {
		template := object{}
		if err := o["template"].As((*map[string]tftypes.Value)(&template)); err != nil {
			t.Fatal(err)
		}
		template["compose"] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
		o["template"] = template.value(o["template"])
	}
	if got := validate(t, soundSpec(), unknownCompose); len(got) > 0 {
		t.Errorf("compose text not known: %v", got[0])
	}
	bad := soundSpec()
	bad.Replicas = 5000
	got := validate(t, bad, unknownCompose)
	if len(got) != 1 || !strings.HasPrefix(got[0].Detail, "replicas: is 5000") {
		t.Errorf("replicas beside it: %v", got)
	}
	unknownReplicas := func(o object) { o["replicas"] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue) }
	bad = soundSpec()
	bad.UpdatePolicy.Partition = 2
	if got := validate(t, bad, unknownReplicas); len(got) > 0 {
		t.Errorf("a partition of an unknown number: %v", got[0])
	}
}

// A text that is no value of its field hides nothing, in the words of the other ways in.
func TestAWrongDurationIsShownAtItsField(t *testing.T) {
	spec := soundSpec()
	spec.LifecycleHooks[0].HTTP.Port = 0
	got := validate(t, spec, func(o object) {
		policy := object{}
		for _, f := range specFields {
			for _, in := range f.Fields {
				if f.Name == "update_policy" {
					policy[in.Name] = tftypes.NewValue(in.Type(), nil)
				}
			}
		}
		policy["healthy_deadline"] = textValue("600")
		o["update_policy"] = policy.value(o["update_policy"])
	})
	shown := map[string]string{}
	for _, d := range got {
		shown[d.Attribute.String()] = d.Detail
	}
	deadline := shown[`AttributeName("update_policy").AttributeName("healthy_deadline")`]
	if len(got) != 2 || deadline != `update_policy.healthy_deadline: is 600 without a unit: write "600s", or another text such as "5m"` ||
		shown[`AttributeName("lifecycle_hook").ElementKeyInt(0).AttributeName("http").AttributeName("port")`] == "" {
		t.Errorf("diagnostics %v", got)
	}
}

func TestHealingIsChecked(t *testing.T) {
	healing := func(check string, delay int) group.Spec {
		s := soundSpec()
		s.AutoHealing = &group.AutoHealing{HealthCheck: check, InitialDelaySec: &delay}
		return s
	}
	if got := validate(t, healing("ready", 60), func(object) {}); len(got) != 0 {
		t.Errorf("sound: %v", got)
	}
	got := validate(t, healing("live", 4000), func(object) {})
	if len(got) != 2 || !strings.Contains(got[0].Detail, `"live" is the name of no health_check`) || !strings.Contains(got[1].Detail, "must be 0 to 3600") {
		t.Errorf("wrong: %v", got)
	}
}

func TestBlocksThatAreNotJSONAreRefused(t *testing.T) {
	got := validate(t, soundSpec(), func(o object) { o[argChecksJSON] = textsValue([]string{"{"}) })
	if len(got) != 1 || got[0].Attribute.String() != `AttributeName("health_check_json").ElementKeyInt(0)` {
		t.Errorf("got %v", got)
	}
	got = validate(t, soundSpec(), func(o object) { o[argChecksJSON] = textsValue([]string{`{"name":"second","tcp":{"port":0}}`}) })
	if len(got) != 1 || got[0].Attribute.String() != `AttributeName("health_check_json").ElementKeyInt(0)` || !strings.Contains(got[0].Detail, `health_check["second"].tcp.port`) {
		t.Errorf("got %v", got)
	}
}
