package bom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ProvenanceType is the media type of the result of Provenance.
const ProvenanceType = "application/vnd.in-toto+json"

// Input is something that the build read.
type Input struct {
	// Name is its local name, URI its public one; either may be empty.
	Name, URI string
	// SHA256 is in hex.
	SHA256 string
}

// Build says how an image was made.
type Build struct {
	// Image is the recipe's name, Version the tag and the programs' own version.
	Image, Version string
	// Source is the state of the repository; empty is not known.
	Source string
	// Toolchain, Compressor and Settings decide bytes.
	Toolchain, Compressor string
	Settings              []string
	Inputs                []Input
}

type digestSet struct {
	SHA256 string `json:"sha256"`
}

type descriptor struct {
	Name   string    `json:"name,omitempty"`
	URI    string    `json:"uri,omitempty"`
	Digest digestSet `json:"digest"`
}

// Provenance writes an in-toto statement with a SLSA provenance predicate (version 1). It is not
// signed: it states the inputs of a build with this digest, which anyone can repeat.
func Provenance(s Subject, b Build) ([]byte, error) {
	var inputs []descriptor
	for _, i := range b.Inputs {
		inputs = append(inputs, descriptor{i.Name, i.URI, digestSet{i.SHA256}})
	}
	statement := map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []descriptor{{Name: s.Name, Digest: digestSet{strings.TrimPrefix(s.Digest, "sha256:")}}},
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "https://cadre.dev/images/v1",
				"externalParameters":   map[string]any{"image": b.Image, "version": b.Version, "source": b.Source},
				"internalParameters":   map[string]any{"toolchain": b.Toolchain, "compressor": b.Compressor, "settings": b.Settings},
				"resolvedDependencies": inputs,
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "https://cadre.dev/images"}},
		},
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(statement); err != nil {
		return nil, fmt.Errorf("write provenance: %w", err)
	}
	return out.Bytes(), nil
}
