package groupfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
)

// Deployment is one deployment block.
type Deployment struct {
	Name   string
	Labels map[string]string
	// Groups of the block, which File.Groups lacks.
	Groups []Group

	block hcl.Range
}

// Document returns the content of the block.
func (d Deployment) Document() deployment.Document {
	out := deployment.Document{Name: d.Name, Labels: d.Labels}
	for _, g := range d.Groups {
		out.Groups = append(out.Groups, g.Spec)
	}
	return out
}

// Position returns where the block was written, as "file:line".
func (d Deployment) Position() string { return position(d.block) }

// deployment reads a block: labels, and groups.
func (l *loader) deployment(ctx *hcl.EvalContext, b *hclsyntax.Block) (Deployment, bool) {
	if len(b.Labels) != 1 {
		l.add(b.DefRange(), "Deployment without a name", `write: deployment "name" { ... }`)
		return Deployment{}, false
	}
	out := Deployment{Name: b.Labels[0], block: b.DefRange()}
	d := &decoder{loader: l, ctx: ctx, ranges: map[string]hcl.Range{}}
	for _, attr := range sortedAttributes(b.Body) {
		if attr.Name != "labels" {
			l.add(attr.NameRange, "Unknown argument", fmt.Sprintf("%q is not known here; known: group, labels", attr.Name))
			continue
		}
		v, ok := d.value(attr.Expr, reflect.TypeFor[map[string]string](), asMap, "labels")
		texts, isMap := v.(map[string]any)
		if ok && isMap {
			out.Labels = map[string]string{}
			for key, text := range texts {
				out.Labels[key], _ = text.(string)
			}
		}
	}
	for _, inner := range b.Body.Blocks {
		if inner.Type != "group" {
			l.add(inner.DefRange(), "Unknown block", fmt.Sprintf("%q is not known here; known: group, labels", inner.Type))
			continue
		}
		if g, ok := l.group(ctx, inner); ok {
			out.Groups = append(out.Groups, g)
		}
	}
	return out, true
}

// LoadDeployment returns the one deployment of the files in paths, as Load does; with only, that of this
// name. A file *.json has the form of deployment.Document.
func LoadDeployment(paths []string, vars Vars, only string) (Deployment, error) {
	if len(paths) == 1 && filepath.Ext(paths[0]) == ".json" {
		text, err := readBounded(paths[0])
		if err != nil {
			return Deployment{}, err
		}
		return decodeDeployment(paths[0], text)
	}
	file, err := Load(paths, vars)
	return file.one(only, err)
}

// ReadDeployment is LoadDeployment for the text of one file, whose functions read files below dir.
func ReadDeployment(name string, text []byte, dir string, vars Vars) (Deployment, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return decodeDeployment(name, text)
	}
	parsed, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	body, ok := parsed.Body.(*hclsyntax.Body)
	if diags.HasErrors() || !ok {
		return Deployment{}, newError(diags)
	}
	file, err := read([]source{{dir: dir, body: body}}, vars)
	return file.one("", err)
}

// one returns the one deployment of f, of which loaded is the error.
func (f File) one(only string, loaded error) (Deployment, error) {
	var found []Deployment
	for _, d := range f.Deployments {
		if only == "" || d.Name == only {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], loaded
	case loaded != nil:
		return Deployment{}, loaded
	case len(found) == 0 && only != "":
		return Deployment{}, fmt.Errorf("%w: there is no deployment %q", ErrNotOne, only)
	case len(found) == 0:
		return Deployment{}, fmt.Errorf(`%w: there is no deployment block: write deployment "name" { ... } around the groups`, ErrNotOne)
	}
	return Deployment{}, fmt.Errorf("%w: there are %d: name one of them", ErrNotOne, len(found))
}

// ErrNotOne: the files do not have one deployment to use.
var ErrNotOne = errors.New("the files must have one deployment")

func decodeDeployment(name string, text []byte) (Deployment, error) {
	var raw struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Groups []json.RawMessage `json:"group"`
	}
	at := hcl.Range{Filename: name, Start: hcl.InitialPos}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return Deployment{}, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Deployment{}, fmt.Errorf("%s: there is more after the document: exactly one JSON object is expected", name)
	}
	out := Deployment{Name: raw.Name, Labels: raw.Labels, block: at}
	problems := &Error{}
	for i, one := range raw.Groups {
		g := Group{JSON: one, block: at}
		var wrong *group.ValidationError
		var err error
		if g.Spec, err = group.Decode(one); errors.As(err, &wrong) {
			g.Wrong = wrong.Problems
		} else if err != nil {
			problems.Problems = append(problems.Problems, fmt.Sprintf("%s: group[%d]: %v", name, i, err))
			continue
		}
		out.Groups = append(out.Groups, g)
	}
	if len(problems.Problems) > 0 {
		return out, problems
	}
	return out, nil
}
