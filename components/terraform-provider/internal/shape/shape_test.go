package shape

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type part struct {
	Name string            `json:"name"`
	Port int               `json:"port,omitempty"`
	Wait *struct{}         `json:"wait,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	List []string          `json:"list,omitempty"`
}

type document struct {
	Title string `json:"title"`
	Flag  bool   `json:"flag,omitempty"`
	Inner part   `json:"inner,omitzero"`
	Parts []part `json:"part,omitempty"`
	Seats []seat `json:"seat,omitempty"`
	Heals *heals `json:"heals,omitempty"`
}

// heals is on where it is there.
type heals struct {
	Limit int `json:"limit,omitempty"`
}

type seat struct {
	Ordinal int    `json:"ordinal"`
	Row     string `json:"row,omitempty"`
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every tree comes back as it went: through the values of Terraform and again as JSON.
func TestTreesComeBack(t *testing.T) {
	fields := Of[document]()
	for _, text := range []string{
		`{}`,
		`{"title":"a","flag":true}`,
		`{"title":"a","inner":{"name":"i","port":8080,"env":{"A":"1","B":""},"list":["x","y"]}}`,
		`{"title":"a","part":[{"name":"one","wait":{}},{"name":"two","port":65535}]}`,
		`{"inner":{"env":{}}}`,
	} {
		tree := parse(t, text)
		values, err := Values(fields, tree)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		back, unknown, err := Tree(fields, tftypes.NewValue(Object(fields), values))
		if err != nil || len(unknown) > 0 || !reflect.DeepEqual(back, tree) {
			t.Errorf("%s came back as %v, %v, %v", text, back, unknown, err)
		}
	}
}

func TestTreesOfAnotherShapeAreRefused(t *testing.T) {
	fields := Of[document]()
	for _, text := range []string{`{"title":{}}`, `{"inner":[]}`, `{"part":{}}`, `{"flag":"yes"}`, `{"title":1}`} {
		if values, err := Values(fields, parse(t, text)); err == nil {
			t.Errorf("%s became %v", text, values)
		}
	}
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	fields := Of[part]()
	values, err := Values(fields, parse(t, `{"name":"one","port":1}`))
	if err != nil {
		t.Fatal(err)
	}
	values["port"] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	tree, unknown, err := Tree(fields, tftypes.NewValue(Object(fields), values))
	if want := []string{"port"}; err != nil || !reflect.DeepEqual(unknown, want) || tree["port"] != nil {
		t.Errorf("tree %v, unknown %v, want %v; %v", tree, unknown, want, err)
	}
}

// A value with the same meaning stays as written; a different one takes its present form.
func TestDriftKeepsWhatMeansTheSame(t *testing.T) {
	fields := Of[document]()
	const full = `{"title":"a","flag":true,"inner":{"port":80},"part":[{"name":"one","port":1},{"name":"two","port":2}]}`
	for name, c := range map[string]struct{ was, wasFull, now, nowFull, want string }{
		"nothing":                  {`{"title":"a"}`, full, full, full, `{"title":"a"}`},
		"a default was set":        {`{"title":"a"}`, `{"title":"a"}`, `{"title":"a","flag":true}`, `{"title":"a","flag":true}`, `{"title":"a","flag":true}`},
		"a value was removed":      {`{"title":"a","inner":{"port":9}}`, `{"title":"a","inner":{"port":9}}`, `{"title":"a"}`, `{"title":"a","inner":{"port":80}}`, `{"title":"a","inner":{}}`},
		"a block of two":           {`{"part":[{"name":"one"},{"name":"two"}]}`, `{"part":[{"name":"one","port":1},{"name":"two","port":1}]}`, `{"part":[{"name":"one"},{"name":"two","port":2}]}`, `{"part":[{"name":"one","port":1},{"name":"two","port":2}]}`, `{"part":[{"name":"one"},{"name":"two","port":2}]}`},
		"one was added first":      {`{"part":[{"name":"one"}]}`, `{"part":[{"name":"one","port":1}]}`, `{"part":[{"name":"new","port":7},{"name":"one","port":1}]}`, `{"part":[{"name":"new","port":7},{"name":"one","port":1}]}`, `{"part":[{"name":"new","port":7},{"name":"one"}]}`},
		"all were removed":         {`{"part":[{"name":"one"}]}`, `{"part":[{"name":"one"}]}`, `{}`, `{}`, `{}`},
		"one of two ordinals":      {`{"seat":[{"ordinal":0},{"ordinal":1}]}`, `{"seat":[{"ordinal":0,"row":"a"},{"ordinal":1,"row":"a"}]}`, `{"seat":[{"ordinal":0,"row":"b"},{"ordinal":1}]}`, `{"seat":[{"ordinal":0,"row":"b"},{"ordinal":1,"row":"a"}]}`, `{"seat":[{"ordinal":0,"row":"b"},{"ordinal":1}]}`},
		"a pointer's came empty":   {`{}`, `{}`, `{"heals":{}}`, `{"heals":{"limit":3}}`, `{"heals":{}}`},
		"a pointer's is a default": {`{}`, `{}`, `{}`, `{"heals":{"limit":3}}`, `{}`},
		"a pointer's went":         {`{"heals":{}}`, `{"heals":{"limit":3}}`, `{}`, `{}`, `{}`},
		"a map gained an entry":    {`{"inner":{"env":{"A":"1"}}}`, `{"inner":{"env":{"A":"1"}}}`, `{"inner":{"env":{"A":"1","B":"2"}}}`, `{"inner":{"env":{"A":"1","B":"2"}}}`, `{"inner":{"env":{"A":"1","B":"2"}}}`},
	} {
		got := Drift(fields, Four{Was: parse(t, c.was), WasFull: parse(t, c.wasFull), Now: parse(t, c.now), NowFull: parse(t, c.nowFull)})
		if want := parse(t, c.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestTrimDropsBlocksThatSayNothing(t *testing.T) {
	got := Trim(Of[document](), parse(t, `{"title":"a","inner":{},"part":[{"name":"one","wait":{}}],"heals":{}}`))
	if want := parse(t, `{"title":"a","part":[{"name":"one","wait":{}}],"heals":{}}`); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPathsOfProblems(t *testing.T) {
	fields := Of[document]()
	tree := parse(t, `{"part":[{"name":"one"},{"name":"a \"b\"","list":["x"],"env":{"A":"1"}}],"seat":[{"ordinal":4},{"ordinal":2}]}`)
	for problem, want := range map[string]string{
		`title`:                    `title`,
		`inner.port`:               `inner.port`,
		`part["a \"b\""].port`:     `part[1].port`,
		`part["a \"b\""].list[0]`:  `part[1].list[0]`,
		`part["a \"b\""].list[9]`:  `part[1].list`,
		`part["a \"b\""].env["A"]`: `part[1].env["A"]`,
		`seat["2"].row`:            `seat[1].row`,
		`part["three"].port`:       `part`,
		`part`:                     `part`,
		`inner.nothing`:            `inner`,
	} {
		if got, ok := Path(fields, tree, problem); !ok || got.String() != want {
			t.Errorf("%s: %s, want %s", problem, got, want)
		}
	}
	if got, ok := Path(fields, tree, "nothing.of.it"); ok {
		t.Errorf("a path of nothing: %s", got)
	}
}
