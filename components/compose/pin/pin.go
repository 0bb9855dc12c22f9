package pin

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/group"
)

// MaxSize bounds a compose file, in bytes.
const MaxSize = 256 << 10

// Image is the image word of one service.
type Image struct {
	Service string
	// Reference is the reference in the text.
	Reference string
	// Line and Column count from 1, columns in characters.
	Line, Column int

	offset int // of the word's first byte, behind a quote
}

// Pinned reports that the image has a digest.
func (i Image) Pinned() bool { return group.ImageProblem(i.Reference) == "" }

// Tagged is the reference without its digest.
func (i Image) Tagged() string {
	name, _, _ := strings.Cut(i.Reference, "@")
	return name
}

// HasTag reports a tag in the reference.
func (i Image) HasTag() bool {
	tagged := i.Tagged()
	return strings.Contains(tagged[strings.LastIndexByte(tagged, '/')+1:], ":")
}

// Images finds the image word of every service. It rejects words that it could not edit in place:
// variables, aliases, tags, block scalars and escapes.
func Images(text []byte) ([]Image, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), MaxSize)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8: save the file as UTF-8")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("is not YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("is empty")
	}
	services := child(doc.Content[0], "services")
	if services == nil || services.Kind != yaml.MappingNode {
		return nil, errors.New("has no services: give a docker compose file")
	}
	lines := lineStarts(text)
	var out []Image
	var errs []error
	for i := 0; i+1 < len(services.Content); i += 2 {
		name, image := services.Content[i].Value, child(services.Content[i+1], "image")
		if image == nil {
			errs = append(errs, fmt.Errorf("%d:%d: service %s names no image of its own: write image: name:tag there", services.Content[i].Line, services.Content[i].Column, name))
			continue
		}
		found := Image{Service: name, Reference: image.Value, Line: image.Line, Column: image.Column}
		if err := found.locate(text, lines, image); err != nil {
			errs = append(errs, fmt.Errorf("%d:%d: the image of service %s %w", image.Line, image.Column, name, err))
			continue
		}
		out = append(out, found)
	}
	return out, errors.Join(errs...)
}

// locate finds the bytes of the word, and makes sure that they are the word.
func (i *Image) locate(text []byte, lines []int, n *yaml.Node) error {
	switch {
	case n.Kind != yaml.ScalarNode || n.Value == "":
		return errors.New("is not one word: write image: name:tag")
	case strings.Contains(n.Value, "$"):
		return fmt.Errorf("is %q, with a variable: write it out; the hash does not bind what the environment fills in", n.Value)
	case n.Line < 1 || n.Line > len(lines):
		return errors.New("has no place in the text")
	}
	offset := lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(text[offset:])
		offset += size
	}
	if n.Style == yaml.DoubleQuotedStyle || n.Style == yaml.SingleQuotedStyle {
		offset++
	}
	if !strings.HasPrefix(string(text[min(offset, len(text)):]), n.Value) || n.Anchor != "" || n.Style&^(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return errors.New("is not written plainly: write it on one line, without tag, anchor or escapes")
	}
	i.offset = offset
	return nil
}

// Write returns text with each image replaced by its entry in references, by service; other images
// stay. Write reads the result again and checks that it has exactly these images.
func Write(text []byte, references map[string]string) ([]byte, error) {
	images, err := Images(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	at := 0
	for _, i := range images {
		b.Write(text[at:i.offset])
		at = i.offset
		if ref, ok := references[i.Service]; ok {
			b.WriteString(ref)
			at += len(i.Reference)
		}
	}
	b.Write(text[at:])
	out := []byte(b.String())
	after, err := Images(out)
	if err != nil || len(after) != len(images) {
		return nil, fmt.Errorf("the edited text cannot be read: %w", err)
	}
	for n, i := range after {
		want := images[n].Reference
		if ref, ok := references[i.Service]; ok {
			want = ref
		}
		if i.Service != images[n].Service || i.Reference != want {
			return nil, fmt.Errorf("the edited text has image %q of service %s, not %q", i.Reference, i.Service, want)
		}
	}
	return out, nil
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func lineStarts(text []byte) []int {
	out := []int{0}
	for i, c := range text {
		if c == '\n' {
			out = append(out, i+1)
		}
	}
	return out
}
