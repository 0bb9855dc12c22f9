package provider

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	tf "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

// The schema follows from the spec's Go types; each field needs a description in addition.
func TestEveryFieldOfTheSpecIsDescribed(t *testing.T) {
	described := maps.Clone(specWords)
	var walk func(fields []shape.Field)
	walk = func(fields []shape.Field) {
		for _, f := range fields {
			if described[f.Path] == "" {
				t.Errorf("%s is a field of the spec and has no words", f.Path)
			}
			delete(described, f.Path)
			walk(f.Fields)
		}
	}
	walk(specFields)
	for _, path := range slices.Sorted(maps.Keys(described)) {
		t.Errorf("%s has words and is no field of the spec", path)
	}
}

// Each field of the Go type is an argument or a block of the resource, of the same name.
func TestEveryFieldOfTheSpecIsInTheSchema(t *testing.T) {
	var resp resource.SchemaResponse
	newGroup().Schema(t.Context(), resource.SchemaRequest{}, &resp)
	typ := reflect.TypeFor[group.Spec]()
	for i := range typ.NumField() {
		name := shape.Of[group.Spec]()[i].Name
		_, argument := resp.Schema.Attributes[name]
		_, block := resp.Schema.Blocks[name]
		if !argument && !block {
			t.Errorf("%s of the spec is not in the schema", typ.Field(i).Name)
		}
	}
}

func TestSchemasAreSound(t *testing.T) {
	p, ctx := &cadre{}, t.Context()
	var own tf.SchemaResponse
	p.Schema(ctx, tf.SchemaRequest{}, &own)
	if d := own.Schema.ValidateImplementation(ctx); d.HasError() {
		t.Error(d)
	}
	for _, one := range p.Resources(ctx) {
		var resp resource.SchemaResponse
		one().Schema(ctx, resource.SchemaRequest{}, &resp)
		if d := resp.Schema.ValidateImplementation(ctx); d.HasError() {
			t.Error(d)
		}
	}
	for _, one := range p.DataSources(ctx) {
		var resp datasource.SchemaResponse
		one().Schema(ctx, datasource.SchemaRequest{}, &resp)
		if d := resp.Schema.ValidateImplementation(ctx); d.HasError() {
			t.Error(d)
		}
	}
	for _, one := range p.EphemeralResources(ctx) {
		var resp ephemeral.SchemaResponse
		one().Schema(ctx, ephemeral.SchemaRequest{}, &resp)
		if d := resp.Schema.ValidateImplementation(ctx); d.HasError() {
			t.Error(d)
		}
	}
	for _, one := range p.Functions(ctx) {
		var resp function.DefinitionResponse
		one().Definition(ctx, function.DefinitionRequest{}, &resp)
		var judged function.DefinitionValidateResponse
		resp.Definition.ValidateImplementation(ctx, function.DefinitionValidateRequest{FuncName: "f"}, &judged)
		if d := judged.Diagnostics; d.HasError() {
			t.Error(d)
		}
	}
}
