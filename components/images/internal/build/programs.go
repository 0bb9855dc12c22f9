package build

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cadre.dev/images/internal/bom"
	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/program"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/tree"
)

// binary is a program that is there.
type binary struct {
	path, sha256 string
	size         int64
	notices      []bom.Notice
}

// buildPrograms builds the programs of recipes, ours in one call.
func (r *run) buildPrograms(ctx context.Context, dir string, recipes []*recipe.Recipe) error {
	var ours []program.Source
	for _, one := range recipes {
		for _, p := range one.Programs {
			source := sourceOf(p)
			if p.Locked {
				if err := r.locked(ctx, one, source); err != nil {
					return err
				}
				continue
			}
			ours = append(ours, source)
		}
	}
	if len(ours) > 0 {
		r.Say(fmt.Sprintf("building %d programs with %s", len(ours), r.set.Pins.Toolchain))
	}
	if err := r.builder.Build(ctx, dir, ours); err != nil {
		return err
	}
	for _, s := range ours {
		b := binary{path: filepath.Join(dir, s.Name)}
		var err error
		if b.sha256, b.size, err = fetch.Digest(b.path); err != nil {
			return fmt.Errorf("program %s: %w", s.Name, err)
		}
		r.programs[s.Name] = b
	}
	return nil
}

func sourceOf(p recipe.Program) program.Source {
	return program.Source{Name: p.Name, Module: p.Module, Package: p.Package, Foreign: p.Locked}
}

// locked finds a program of others by its digest, or builds it, which can take minutes.
func (r *run) locked(ctx context.Context, one *recipe.Recipe, s program.Source) error {
	i := slices.IndexFunc(one.Lock.Programs, func(b recipe.Binary) bool { return b.Name == s.Name })
	lock := one.Lock.Programs[i] // checked when the recipe was loaded
	if lock.Toolchain != r.set.Pins.Toolchain {
		return fmt.Errorf("%s: locked as %s builds it, and pins.hcl says %s: lock again with make images-lock", where(one, lock.Line), lock.Toolchain, r.set.Pins.Toolchain)
	}
	if r.Rebuild || !r.cache.Has(lock.SHA256) {
		if err := r.provide(ctx, lock, s); err != nil {
			return fmt.Errorf("program %s (%s): %w", s.Name, where(one, lock.Line), err)
		}
	}
	if err := r.cache.Check(lock.SHA256, lock.Size); err != nil {
		return fmt.Errorf("program %s (%s): %w", s.Name, where(one, lock.Line), err)
	}
	r.programs[s.Name] = binary{path: r.cache.Path(lock.SHA256), sha256: lock.SHA256, size: lock.Size}
	return nil
}

func (r *run) provide(ctx context.Context, lock recipe.Binary, s program.Source) error {
	// A program that scripts/tools.sh has built is the same program, if its digest matches.
	ready := filepath.Join(r.Root, ".tools/bin", s.Name)
	if sum, _, err := fetch.Digest(ready); err != nil || sum != lock.SHA256 || r.Rebuild {
		r.Say("building " + s.Name + " from its Go module; once, can take minutes")
		ready = filepath.Join(r.work, s.Name)
		if err := r.builder.Build(ctx, filepath.Dir(ready), []program.Source{s}); err != nil {
			return err
		}
	}
	f, err := os.Open(ready)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := r.cache.Store(f, lock.SHA256); err != nil {
		return fmt.Errorf("built by %s: %w; %s has changed and must be locked again with make images-lock, or this toolchain is not the one of go.dev",
			r.set.Pins.Toolchain, err, s.Module)
	}
	return nil
}

// allNotices reads the licences of the programs' modules.
func (r *run) allNotices(ctx context.Context, recipes []*recipe.Recipe) error {
	for _, one := range recipes {
		for _, p := range one.Programs {
			b := r.programs[p.Name]
			var err error
			if b.notices, err = r.notices(ctx, sourceOf(p)); err != nil {
				return err
			}
			r.programs[p.Name] = b
		}
	}
	return nil
}

func (r *run) notices(ctx context.Context, s program.Source) ([]bom.Notice, error) {
	modules, err := r.builder.Modules(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("list the modules of %s: %w", s.Name, err)
	}
	notices, err := bom.Notices(modules)
	if err != nil {
		return nil, err
	}
	if len(notices) > 0 && notices[len(notices)-1].Module.Path == program.Library && len(notices[len(notices)-1].Texts) == 0 {
		return nil, fmt.Errorf("the toolchain in %s has no LICENSE", notices[len(notices)-1].Module.Dir)
	}
	return notices, nil
}

// programs of an image are here.
const programs = "usr/local/bin/"

func (r *run) addProgram(l *layer, p recipe.Program) error {
	b := r.programs[p.Name]
	err := l.tree.Put(tree.Entry{
		Path: programs + p.Name, Kind: tree.File, Mode: 0o755, Origin: origin(l.recipe), Body: tree.Body{File: b.path, Size: b.size},
	})
	if err != nil {
		return err
	}
	docs := "usr/share/doc/" + p.Name + "/"
	if err := r.file(l, docs+"modules", 0o644, bom.NoticeFile(p.Name, b.notices)); err != nil {
		return err
	}
	version, licence, comment := r.Version, "Apache-2.0", ""
	if p.Locked {
		version, licence = "", ""
		for _, n := range b.notices {
			if strings.HasPrefix(p.Package+"/", n.Module.Path+"/") {
				c := n.Component(p.Name)
				version, licence, comment = c.Version, c.Licence, c.Comment
			}
		}
	} else {
		text, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
		if err != nil {
			return fmt.Errorf("read our licence: %w", err)
		}
		if err := r.file(l, docs+"copyright", 0o644, text); err != nil {
			return err
		}
	}
	c := bom.Program(p.Name, cmp.Or(version, "unknown"), b.sha256, licence)
	c.Comment = comment
	l.components = append(l.components, c)
	for _, n := range b.notices {
		l.components = append(l.components, n.Component(p.Name))
	}
	l.inputs = append(l.inputs, bom.Input{Name: "program " + p.Name, SHA256: b.sha256})
	return nil
}
