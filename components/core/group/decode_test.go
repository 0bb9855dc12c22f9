package group

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDecodeReadsWhatMarshalWrites(t *testing.T) {
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
		"an unknown field":           {`{"name":"a","replica":3}`, `"replica"`},
		"an unknown nested field":    {`{"update_policy":{"max_unavailble_fixed":1}}`, `"update_policy.max_unavailble_fixed"`},
		"an unknown field in a list": {`{"lifecycle_hook":[{"name":"a"},{"nam":"b"}]}`, `"lifecycle_hook[1].nam"`},
		"a differently cased field":  {`{"Name":"a"}`, `"Name"`},
		"a duplicate key":            {`{"name":"a","name":"b"}`, `"name" stands twice`},
		"a duplicate key in a map":   {`{"template":{"env":{"A":"1","A":"2"}}}`, `"template.env.A" stands twice`},
		"trailing data":              {`{"name":"a"} {"name":"b"}`, "more after the document"},
		"trailing rubbish":           {`{"name":"a"}]`, "more after the document"},
		"a truncated document":       {`{"name":"a"`, "unexpected EOF"},
		"nothing":                    {``, "unexpected EOF"},
		"a list":                     {`[]`, "cannot unmarshal"},
		"a wrong type":               {`{"replicas":"3"}`, "replicas"},
		"a fraction":                 {`{"replicas":1.5}`, "replicas"},
		"a bare duration":            {`{"update_policy":{"healthy_deadline":600}}`, "healthy_deadline"},
		"a wrong duration":           {`{"update_policy":{"healthy_deadline":"10"}}`, `"30s"`},
		"deep nesting":               {`{"meta":{"a":` + strings.Repeat("[", 100000), "nests too deeply"},
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

func FuzzDecode(f *testing.F) {
	text, err := json.Marshal(goodSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"template":{"env":{"A":"1"}}}`))
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
		_ = Validate(s)
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
