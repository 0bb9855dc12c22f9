package build

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"cadre.dev/images/internal/bom"
	"cadre.dev/images/internal/bytecode"
	"cadre.dev/images/internal/deb"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/tree"
	"cadre.dev/images/internal/wheel"
)

// fill puts everything of a recipe into its layer: packages first, the recipe's own files
// over them, compiled modules last.
func (r *run) fill(ctx context.Context, l *layer) error {
	if err := r.links(l); err != nil {
		return err
	}
	if err := r.addDebs(ctx, l); err != nil {
		return err
	}
	if err := r.addWheels(l); err != nil {
		return err
	}
	if err := r.addJars(l); err != nil {
		return err
	}
	for _, p := range l.recipe.Programs {
		if err := r.addProgram(l, p); err != nil {
			return err
		}
	}
	for _, p := range l.recipe.Prebuilt {
		if err := r.addPrebuilt(l, p); err != nil {
			return fmt.Errorf("prebuilt %s: %w", p.Name, err)
		}
	}
	if err := r.addOwn(l); err != nil {
		return err
	}
	if len(l.recipe.Bytecode) == 0 {
		return nil
	}
	return bytecode.Compile(ctx, l.tree, l.recipe.Bytecode)
}

// links come first: files of packages below them go to their targets.
func (r *run) links(l *layer) error {
	for _, link := range l.recipe.Links {
		if err := l.tree.Put(tree.Entry{Path: link.Path, Kind: tree.Symlink, Target: link.Target, Origin: origin(l.recipe)}); err != nil {
			return err
		}
	}
	return nil
}

func origin(one *recipe.Recipe) string { return "recipe " + one.Name }

func (r *run) addDebs(ctx context.Context, l *layer) error {
	debs := l.recipe.Lock.Debs
	read := make([]*deb.Package, len(debs))
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, d := range debs {
		group.Go(func() error {
			p, err := deb.Read(r.cache.Path(d.SHA256), filepath.Join(r.work, l.recipe.Name+"-"+d.Name+".tar"))
			if err == nil && (p.Name != d.Name || p.Version != d.Version) {
				err = fmt.Errorf("the package says that it is %s %s", p.Name, p.Version)
			}
			if err != nil {
				return fmt.Errorf("deb %s (%s): %w", d.Name, where(l.recipe, d.Line), err)
			}
			read[i] = p
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range read {
		for _, e := range p.Files {
			if l.recipe.Dropped(e.Path) {
				continue
			}
			if err := l.tree.Add(e); err != nil {
				return err
			}
		}
		name, fields := p.StatusFile()
		if err := l.tree.Put(tree.Entry{Path: name, Kind: tree.File, Mode: 0o644, Body: tree.Bytes(fields), Origin: p.Name}); err != nil {
			return err
		}
	}
	for i, p := range read {
		c := bom.Deb(p, debs[i], text(l.tree, "usr/share/doc/"+p.Name+"/copyright"))
		l.components = append(l.components, c)
		l.inputs = append(l.inputs, bom.Input{URI: c.URL, SHA256: c.SHA256})
	}
	return nil
}

// text reads a file of the image, through links; nil when there is none.
func text(t *tree.Tree, name string) []byte {
	e, ok := t.Find(name)
	if !ok || e.Kind != tree.File {
		return nil
	}
	data, err := e.Body.ReadAll()
	if err != nil {
		return nil
	}
	return data
}

// layout is where the image's Python looks for the files of wheels.
func (r *run) layout() wheel.Layout {
	return wheel.Layout{Site: "usr/local/lib/python" + r.set.Pins.Python + "/dist-packages", Scripts: "usr/local/bin", Python: "/usr/bin/python3"}
}

func (r *run) readWheel(l *layer, w recipe.Wheel) (*wheel.Package, error) {
	p, err := wheel.Read(r.cache.Path(w.SHA256), r.layout())
	if err == nil && (recipe.Normal(p.Name) != w.Name || p.Version != w.Version) {
		err = fmt.Errorf("the wheel says that it is %s %s", p.Name, p.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("wheel %s (%s): %w", w.Name, where(l.recipe, w.Line), err)
	}
	return p, nil
}

func (r *run) addWheels(l *layer) error {
	for _, text := range l.recipe.Wheels {
		w, _ := l.recipe.Lock.Wheel(text) // checked when the recipe was loaded
		p, err := r.readWheel(l, w)
		if err != nil {
			return err
		}
		for _, e := range p.Files {
			if l.recipe.Dropped(e.Path) {
				continue
			}
			if err := l.tree.Add(e); err != nil {
				return err
			}
		}
		c := bom.Wheel(p, w)
		l.components = append(l.components, c)
		l.inputs = append(l.inputs, bom.Input{URI: c.URL, SHA256: c.SHA256})
	}
	return nil
}

func (r *run) addJars(l *layer) error {
	for _, text := range l.recipe.Jars {
		j, _ := l.recipe.Lock.Jar(text) // checked when the recipe was loaded
		c, err := bom.Jar(j, r.cache.Path(j.SHA256))
		if err != nil {
			return fmt.Errorf("jar %s (%s): %w", j.Name, where(l.recipe, j.Line), err)
		}
		body := tree.Body{File: r.cache.Path(j.SHA256), Size: j.Size}
		if err := l.tree.Put(tree.Entry{Path: recipe.JarFolder + "/" + j.File(), Kind: tree.File, Mode: 0o644, Origin: j.Name, Body: body}); err != nil {
			return err
		}
		l.components = append(l.components, c)
		l.inputs = append(l.inputs, bom.Input{URI: c.URL, SHA256: c.SHA256})
	}
	return nil
}

// addOwn adds the recipe's own files.
func (r *run) addOwn(l *layer) error {
	one := l.recipe
	for _, d := range one.Directories {
		// The recipe was checked when it was loaded.
		mode, _ := recipe.ParseMode(d.Mode, 0o755)
		uid, gid, _ := recipe.ParseOwner(d.Owner)
		if err := l.tree.Put(tree.Entry{Path: d.Path, Kind: tree.Directory, Mode: mode, UID: uid, GID: gid, Origin: origin(one)}); err != nil {
			return err
		}
	}
	for _, f := range one.Files {
		mode, _ := recipe.ParseMode(f.Mode, 0o644)
		if err := r.file(l, f.Path, mode, []byte(f.Content)); err != nil {
			return err
		}
	}
	if len(one.Users) > 0 {
		passwd, group := accounts(r.set.Chain(one))
		if err := r.file(l, "etc/passwd", 0o644, passwd); err != nil {
			return err
		}
		if err := r.file(l, "etc/group", 0o644, group); err != nil {
			return err
		}
	}
	if one.Bundle {
		return r.bundle(l)
	}
	return nil
}

func (r *run) file(l *layer, name string, mode int64, data []byte) error {
	return l.tree.Put(tree.Entry{Path: name, Kind: tree.File, Mode: mode, Body: tree.Bytes(data), Origin: origin(l.recipe)})
}

// accounts writes the users of a recipe and of all below it.
func accounts(chain []*recipe.Recipe) (passwd, group []byte) {
	var users []recipe.User
	for _, one := range chain {
		users = append(users, one.Users...)
	}
	slices.SortStableFunc(users, func(a, b recipe.User) int { return cmp.Compare(a.ID, b.ID) })
	var p, g bytes.Buffer
	for _, u := range users {
		own := u.Name
		if u.Name == "nobody" {
			own = "nogroup" // as the distribution calls it
		}
		fmt.Fprintf(&p, "%s:x:%d:%d:%s:%s:/usr/sbin/nologin\n", u.Name, u.ID, u.ID, u.Name, cmp.Or(u.Home, "/nonexistent"))
		fmt.Fprintf(&g, "%s:x:%d:\n", own, u.ID)
	}
	return p.Bytes(), g.Bytes()
}

// certificates is where the package has them; each is a file of its own.
const certificates = "usr/share/ca-certificates/mozilla/"

// bundle makes the one file of certificates that programs read.
func (r *run) bundle(l *layer) error {
	var all bytes.Buffer
	for _, e := range l.tree.Entries() { // sorted by path
		if !strings.HasPrefix(e.Path, certificates) || e.Kind != tree.File {
			continue
		}
		data, err := e.Body.ReadAll()
		if err != nil {
			return err
		}
		all.Write(bytes.TrimSpace(data))
		all.WriteByte('\n')
		l.tree.Remove(e.Path)
	}
	if all.Len() == 0 {
		return fmt.Errorf("ca_bundle: no package has certificates in %s", certificates)
	}
	return r.file(l, "etc/ssl/certs/ca-certificates.crt", 0o644, all.Bytes())
}
