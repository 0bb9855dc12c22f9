package drivercheck

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/adapter"
)

type schema struct {
	Ref                  string            `json:"$ref"          yaml:"$ref"`
	Type                 string            `json:"type"          yaml:"type"`
	Enum                 []string          `json:"enum"          yaml:"enum"`
	Required             []string          `json:"required"      yaml:"required"`
	Properties           map[string]schema `json:"properties"    yaml:"properties"`
	AdditionalProperties any               `json:"additionalProperties" yaml:"additionalProperties"`
	Items                *schema           `json:"items"         yaml:"items"`
	MaxLength            int               `json:"maxLength"     yaml:"maxLength"`
	MaxItems             int               `json:"maxItems"      yaml:"maxItems"`
	MaxProperties        int               `json:"maxProperties" yaml:"maxProperties"`
}

// long are the fields with room for a sentence.
var long = []string{"may_disrupt_reason", "message", "fault"}

// enums are the words of a field.
var enums = map[string][]string{
	"role":     {adapter.RoleLeader, adapter.RoleFollower, adapter.RoleLearner, adapter.RoleNone, adapter.RoleUnknown},
	"liveness": {adapter.Alive, adapter.Refused, adapter.Unknown},
	"do":       {adapter.DoAdd, adapter.DoPromote, adapter.DoRemove},
}

// assertShows compares a schema with a Go type: names, types, bounds and required fields.
func assertShows(t *testing.T, s schema, typ reflect.Type) {
	t.Helper()
	var required []string
	seen := 0
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, documented := s.Properties[name]
		if !documented {
			t.Errorf("%s: %s is not documented", typ, name)
			continue
		}
		seen++
		if options != "omitempty" {
			required = append(required, name)
		}
		limit := adapter.MaxName
		if slices.Contains(long, name) {
			limit = adapter.MaxText
		}
		want := schema{Enum: enums[name]}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch kind.Kind() {
		case reflect.String:
			if want.Enum == nil {
				want.Type, want.MaxLength = "string", limit
			}
		case reflect.Bool:
			want.Type = "boolean"
		case reflect.Int64, reflect.Uint64:
			want.Type = "integer"
		case reflect.Slice:
			want.Type, want.MaxItems = "array", adapter.MaxMembers
			if p.Items == nil || p.Items.MaxLength != adapter.MaxName {
				t.Errorf("%s.%s: items %+v", typ, name, p.Items)
			}
		case reflect.Map:
			want.Type, want.MaxProperties = "object", adapter.MaxMembers
		default:
			t.Errorf("%s.%s has a kind that no document shows: %s", typ, name, kind)
		}
		if p.Type != want.Type || !slices.Equal(p.Enum, want.Enum) || p.MaxLength != want.MaxLength || p.MaxItems != want.MaxItems || p.MaxProperties != want.MaxProperties {
			t.Errorf("%s.%s: the document has %+v, the code %+v", typ, name, p, want)
		}
	}
	if seen != len(s.Properties) {
		t.Errorf("%s: %d of %d documented fields exist", typ, seen, len(s.Properties))
	}
	if !slices.Equal(s.Required, required) || s.AdditionalProperties != false {
		t.Errorf("%s: required are %q, want %q; other fields: %v", typ, s.Required, required, s.AdditionalProperties)
	}
}

// TestTheSchemaIsThatOfTheContract keeps docs/reference/adapter-member.schema.json and the type equal.
func TestTheSchemaIsThatOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/adapter-member.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	assertShows(t, s, reflect.TypeFor[adapter.Member]())
}

// TestTheInterfaceIsThatOfTheContract keeps docs/reference/openapi-adapter.yaml and the types equal.
func TestTheInterfaceIsThatOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/openapi-adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type content struct {
		Content map[string]struct {
			Schema schema `yaml:"schema"`
		} `yaml:"content"`
	}
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody content `yaml:"requestBody"`
			Responses   map[string]struct {
				content `yaml:",inline"`
			} `yaml:"responses"`
		} `yaml:"paths"`
		Components struct {
			Schemas map[string]schema `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for path, methods := range document.Paths {
		for method, call := range methods {
			calls = append(calls, method+" "+path)
			if method == "get" && call.Responses["200"].Content["application/json"].Schema.Ref != "adapter-member.schema.json" {
				t.Errorf("%s %s answers with another document", method, path)
			}
			for _, code := range []string{"200", "409", "422", "default"} {
				if _, has := call.Responses[code]; !has && method != "get" {
					t.Errorf("%s %s has no response %s", method, path, code)
				}
			}
		}
	}
	slices.Sort(calls)
	want := []string{"delete " + adapter.PathDrain, "get " + adapter.PathMember, "post " + adapter.PathDrain, "post " + adapter.PathSet, "post " + adapter.PathTransfer}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	all := document.Components.Schemas
	assertShows(t, all["TransferRequest"], reflect.TypeFor[adapter.TransferRequest]())
	assertShows(t, all["Transferred"], reflect.TypeFor[adapter.Transferred]())
	assertShows(t, all["SetRequest"], reflect.TypeFor[adapter.SetRequest]())
	if len(all) != 4 || len(all["Error"].Properties) != 1 {
		t.Errorf("%d schemas", len(all))
	}
}
