package group

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/strictjson/strictjsontest"
)

func TestDecodeReadsTheOutputOfMarshal(t *testing.T) {
	want := goodSpec()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestINP03_DecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an unknown field":           {`{"name":"a","replica":3}`, "replica: is no field"},
		"an unknown nested field":    {`{"update_policy":{"max_unavailble_fixed":1}}`, "update_policy.max_unavailble_fixed: is no field"},
		"an unknown field in a list": {`{"lifecycle_hook":[{"name":"a"},{"nam":"b"}]}`, "lifecycle_hook[1].nam: is no field"},
		"a differently cased field":  {`{"Name":"a"}`, "Name: is no field"},
		"a duplicate key":            {`{"name":"a","name":"b"}`, "name: stands twice"},
		"a duplicate key in a map":   {`{"template":{"env":{"A":"1","A":"2"}}}`, `template.env["A"]: stands twice`},
		"trailing data":              {`{"name":"a"} {"name":"b"}`, "more after the document"},
		"trailing rubbish":           {`{"name":"a"}]`, "more after the document"},
		"a truncated document":       {`{"name":"a"`, "unexpected EOF"},
		"nothing":                    {``, "unexpected EOF"},
		"a list":                     {`[]`, "is not a JSON object"},
		"a word":                     {`"a"`, "is not a JSON object"},
		"a text for a number":        {`{"replicas":"3"}`, `replicas: is "3": write a whole number`},
		"a fraction":                 {`{"replicas":1.5}`, "replicas: is 1.5: write a whole number"},
		"a number that is too large": {`{"replicas":1e99}`, "replicas: is 1e99: write a whole number"},
		"a number for a text":        {`{"restart_token":7}`, "restart_token: is 7: write a text"},
		"a number for a map's text":  {`{"meta":{"a":7}}`, `meta["a"]: is 7: write a text`},
		"a text for a boolean":       {`{"update_policy":{"parallel_voters":"yes"}}`, `update_policy.parallel_voters: is "yes": write true or false`},
		"a list for a text":          {`{"restart_token":["a"]}`, "restart_token: is a list: write a text"},
		"a text for a list":          {`{"without":"a"}`, `without: is "a": write a list of strings`},
		"a text for a block":         {`{"template":"a"}`, `template: is "a": write a block`},
		"an object for a text":       {`{"name":{"a":1}}`, "name: is an object: write a text"},
		"a bare duration":            {`{"update_policy":{"healthy_deadline":600}}`, `update_policy.healthy_deadline: is 600 without a unit: write "600s", or another text such as "5m"`},
		"a duration without a unit":  {`{"update_policy":{"healthy_deadline":"600"}}`, `update_policy.healthy_deadline: is 600 without a unit: write "600s", or another text such as "5m"`},
		"a wrong duration":           {`{"update_policy":{"healthy_deadline":"soon"}}`, `update_policy.healthy_deadline: is "soon", which is not a duration: write a text such as "300s" or "5m"`},
		"a label behind the mistake": {`{"lifecycle_hook":[{"heartbeat_timeout":300,"name":"leave"}]}`, `lifecycle_hook["leave"].heartbeat_timeout: is 300 without a unit`},
		"an instance's mistake":      {`{"instance":[{"ordinal":2,"env":[]}]}`, `instance["2"].env: is a list: write a map of strings`},
		"deep nesting":               {`{"meta":{"a":` + strings.Repeat("[", 100000), "levels deep"},
		"invalid UTF-8":              {"{\"name\":\"a\xff\"}", "UTF-8"},
		"an oversized text":          {strings.Repeat(" ", MaxSpecBytes+1), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Decode(%.60q) = %v, want an error that contains %q", c.text, err, c.want)
			}
		})
	}
}

// One wrong field hides neither another one nor the validation of the other fields, and causes no
// second finding.
func TestAllWrongFieldsAreReportedAtOnce(t *testing.T) {
	spec := goodSpec()
	spec.LifecycleHooks = []LifecycleHook{{Name: "leave", Transition: PreTerminate, HTTP: &HTTPAction{Port: 80, Path: "leave"}}}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.NewReplacer(
		`"replicas":`+strconv.Itoa(spec.Replicas), `"replicas":"many","replica":2`,
		`"transition":"PRE_TERMINATE"`, `"transition":"PRE_TERMINATE","heartbeat_timeout":300`,
	).Replace(string(text))
	got, err := Decode([]byte(wrong))
	var decoded *ValidationError
	if !errors.As(err, &decoded) {
		t.Fatalf("Decode = %v", err)
	}
	paths := map[string]int{}
	var all *ValidationError
	if !errors.As(decoded.And(Validate(got)), &all) {
		t.Fatal("no problems")
	}
	for _, p := range all.Problems {
		paths[p.Path]++
	}
	want := map[string]int{"replicas": 1, "replica": 1, `lifecycle_hook["leave"].heartbeat_timeout`: 1, `lifecycle_hook["leave"].http.path`: 1}
	if !maps.Equal(paths, want) {
		t.Errorf("problems\n%v\nwant those of %v", all, want)
	}
}

func TestHostileSpecsMakeNoLongErrors(t *testing.T) {
	_, err := Decode([]byte(`{"meta":{` + strings.Repeat(`"a":1,`, 20000) + `"b":2}}`))
	if err == nil || len(err.Error()) > 16<<10 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func FuzzDecode(f *testing.F) {
	text, err := json.Marshal(goodSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"template":{"env":{"A":"1"}}}`))
	for c := range strictjsontest.Extreme(f, text) {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("decoded spec does not encode: %v", err)
		}
		if _, err := Decode(again); err != nil && len(again) <= MaxSpecBytes {
			t.Fatalf("encoded spec does not decode: %v", err)
		}
		everything(s)
	})
}

func TestNormalizeFillsDefaultsOnce(t *testing.T) {
	s := Spec{
		Name: "a", Replicas: 3,
		LifecycleHooks: []LifecycleHook{{Name: "d", Transition: PreTerminate, MaxDuration: minutes(2), HTTP: &HTTPAction{}}, {Name: "p", Transition: PostLaunch}},
		HealthChecks:   []HealthCheck{{Name: "c", CheckIntervalSec: 1, HTTP: &HTTPCheck{}}},
		Backends:       []Backend{{Name: "b"}},
	}
	s.Normalize()
	p, h, c := s.UpdatePolicy, s.LifecycleHooks, s.HealthChecks[0]
	switch {
	case *p.MaxUnavailableFixed != 1, *p.MinReadySeconds != 30, p.HealthyDeadline.D() != 10*time.Minute, p.ProgressDeadline.D() != 30*time.Minute:
		t.Errorf("update policy %+v", p)
	case s.ManagementPolicy != OrderedReady, p.Type != Proactive, p.OnFailure != Pause, s.Platform != "phala", s.Workload.Kind != "none":
		t.Errorf("words: %+v", s)
	case h[0].HeartbeatTimeout != minutes(2), h[0].DefaultResult != HookAbandon, h[0].HTTP.Method != "POST":
		t.Errorf("hook %+v", h[0])
	case h[1].HeartbeatTimeout != minutes(5), h[1].MaxDuration != minutes(60), h[1].DefaultResult != HookHold:
		t.Errorf("hook %+v", h[1])
	case c.TimeoutSec != 1, c.HealthyThreshold != 2, c.UnhealthyThreshold != 3, c.HTTP.Expect != "200", s.Backends[0].Protocol != "tcp":
		t.Errorf("check %+v", c)
	}
	once, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Normalize()
	twice, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if string(once) != string(twice) {
		t.Errorf("Normalize twice differs:\n%s\n%s", once, twice)
	}
}

func TestNormalizeNeverMovesTheRevision(t *testing.T) {
	s := Spec{Template: Template{Compose: goodCompose()}}
	before := s.Revision()
	s.Normalize()
	if after := s.Revision(); after != before {
		t.Errorf("revision moved from %s to %s", before, after)
	}
}
