package provider

import (
	"cadre.dev/core/group"
	"cadre.dev/terraform-provider/internal/shape"
)

// specWords describe every field of the spec, by its path, with the text of its reference.
var specWords = wordsOf(group.Fields())

func wordsOf(fields []group.Field) shape.Words {
	words := make(shape.Words, len(fields))
	for _, f := range fields {
		words[f.Path] = f.Words()
	}
	return words
}
