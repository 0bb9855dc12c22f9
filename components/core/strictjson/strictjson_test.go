package strictjson

import (
	"strings"
	"testing"
)

type inner struct {
	B int `json:"b"`
}

type outer struct {
	A    string            `json:"a"`
	List []inner           `json:"list"`
	Map  map[string]*inner `json:"map"`
	Free any               `json:"free"`
}

func TestINP03_ATT24_Unmarshal(t *testing.T) {
	for _, c := range []struct {
		name, text string
		// want is in the error; "" means accepted.
		want     string
		wantOpen string
	}{
		{"good", `{"a":"x","list":[{"b":1},{"b":2}],"map":{"K":{"b":3},"other":null},"free":{"anything":[1]}}`, "", ""},
		{"unknown", `{"c":1}`, `unknown key "c"`, ""},
		{"unknown inside", `{"list":[{"b":1},{"x":2}]}`, `list[1]: unknown key "x"`, ""},
		{"unknown in a map", `{"map":{"k":{"x":2}}}`, `map.k: unknown key "x"`, ""},
		{"doubled", `{"a":"x","a":"y"}`, "the same", "the same"},
		{"doubled by escape", `{"a":"x","\u0061":"y"}`, "the same", "the same"},
		{"doubled by case", `{"free":{"k":1,"K":2}}`, "the same", "the same"},
		{"doubled where free", `{"free":{"k":1,"k":2}}`, "the same", "the same"},
		{"other case", `{"A":"x"}`, `must be written "a"`, `must be written "a"`},
		{"other case by Unicode folding", `{"liſt":[]}`, `must be written "list"`, `must be written "list"`},
		{"trailing value", `{} {}`, "more data", "more data"},
		{"trailing text", `{} x`, "more data", "more data"},
		{"trailing space", "{} \n", "", ""},
		{"empty", ``, "unexpected EOF", "unexpected EOF"},
		{"cut", `{"a":`, "EOF", "EOF"},
		{"cut in a list", `{"list":[`, "EOF", "EOF"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "UTF-8", "UTF-8"},
		{"deep", `{"free":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, "deeper", "deeper"},
		{"wrong type", `{"a":1}`, "decode JSON", "decode JSON"},
		{"number too big", `{"list":[{"b":1e99}]}`, "decode JSON", "decode JSON"},
	} {
		var v outer
		wantError(t, c.name, Unmarshal([]byte(c.text), &v), c.want)
		wantError(t, c.name+" (open)", UnmarshalOpen([]byte(c.text), &v), c.wantOpen)
	}
}

func wantError(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want it to say %q", name, err, want)
	}
}
