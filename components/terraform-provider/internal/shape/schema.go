package shape

import (
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Words describe Fields by their Path.
type Words map[string]string

func (w Words) of(f Field) string {
	text := w[f.Path]
	if f.Needed {
		text += " Must be set."
	}
	return text
}

// Resource gives the arguments and blocks of a resource. All are optional: the spec's own
// validation reports missing ones with its texts.
func Resource(fields []Field, w Words) (map[string]resource.Attribute, map[string]resource.Block) {
	attributes, blocks := map[string]resource.Attribute{}, map[string]resource.Block{}
	for _, f := range fields {
		text := w.of(f)
		switch f.Kind {
		case Text:
			attributes[f.Name] = resource.StringAttribute{Optional: true, MarkdownDescription: text}
		case Number:
			attributes[f.Name] = resource.Int64Attribute{Optional: true, MarkdownDescription: text}
		case Flag:
			attributes[f.Name] = resource.BoolAttribute{Optional: true, MarkdownDescription: text}
		case Texts:
			attributes[f.Name] = resource.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: text}
		case TextMap:
			attributes[f.Name] = resource.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: text}
		case Block:
			inner, nested := Resource(f.Fields, w)
			blocks[f.Name] = resource.SingleNestedBlock{Attributes: inner, Blocks: nested, MarkdownDescription: text}
		case Blocks:
			inner, nested := Resource(f.Fields, w)
			blocks[f.Name] = resource.ListNestedBlock{NestedObject: resource.NestedBlockObject{Attributes: inner, Blocks: nested}, MarkdownDescription: text}
		}
	}
	return attributes, blocks
}

// Data gives the arguments and blocks of a data source.
func Data(fields []Field, w Words) (map[string]data.Attribute, map[string]data.Block) {
	attributes, blocks := map[string]data.Attribute{}, map[string]data.Block{}
	for _, f := range fields {
		text := w.of(f)
		switch f.Kind {
		case Text:
			attributes[f.Name] = data.StringAttribute{Optional: true, MarkdownDescription: text}
		case Number:
			attributes[f.Name] = data.Int64Attribute{Optional: true, MarkdownDescription: text}
		case Flag:
			attributes[f.Name] = data.BoolAttribute{Optional: true, MarkdownDescription: text}
		case Texts:
			attributes[f.Name] = data.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: text}
		case TextMap:
			attributes[f.Name] = data.MapAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: text}
		case Block:
			inner, nested := Data(f.Fields, w)
			blocks[f.Name] = data.SingleNestedBlock{Attributes: inner, Blocks: nested, MarkdownDescription: text}
		case Blocks:
			inner, nested := Data(f.Fields, w)
			blocks[f.Name] = data.ListNestedBlock{NestedObject: data.NestedBlockObject{Attributes: inner, Blocks: nested}, MarkdownDescription: text}
		}
	}
	return attributes, blocks
}
