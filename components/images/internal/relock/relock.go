package relock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cadre.dev/images/internal/build"
	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/program"
	"cadre.dev/images/internal/recipe"
)

// Options say which repository to lock.
type Options struct {
	// Root is the repository, Cache the folder of fetched files; both absolute.
	Root, Cache string
	// Now is the age of locks that change.
	Now time.Time
	// Programs builds other projects' programs for new digests; otherwise the locks' digests stay.
	Programs bool
	Env      func(string) string
	Say      func(string)
}

// Run makes the locks of all recipes again. A lock whose lines stay the same keeps its time, and so
// its layer keeps its digest.
func Run(ctx context.Context, o Options) error {
	dir := filepath.Join(o.Root, build.Recipes)
	set, err := recipe.Load(dir, false)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "cadre-images-lock-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	l := locker{Options: o, set: set, work: work, locked: map[string]recipe.Lock{}}
	if l.cache, err = fetch.Open(o.Cache); err != nil {
		return err
	}
	l.apt = &apt{dir: filepath.Join(work, "apt"), suite: set.Pins.Suite, mirrors: fetch.ReadMirrors("/etc/apt")}
	l.pip = &pip{dir: filepath.Join(work, "python"), python: set.Pins.Python}
	for _, r := range set.All() {
		if err := l.lock(ctx, r, filepath.Join(dir, r.Name+".lock")); err != nil {
			return fmt.Errorf("lock %s: %w", r.Name, err)
		}
	}
	return nil
}

type locker struct {
	Options
	set    *recipe.Set
	cache  *fetch.Cache
	apt    *apt
	pip    *pip
	work   string
	locked map[string]recipe.Lock
}

func (l *locker) lock(ctx context.Context, r *recipe.Recipe, name string) error {
	// The former lock, if it can be read: a broken one is replaced.
	old, _ := recipe.ReadLock(name)
	lock := recipe.Lock{Time: l.Now.UTC().Truncate(time.Hour)}
	var err error
	if lock.Debs, err = l.debs(ctx, r); err != nil {
		return err
	}
	if lock.Wheels, err = l.wheels(ctx, r); err != nil {
		return err
	}
	if lock.Jars, err = l.jars(ctx, r, old); err != nil {
		return err
	}
	if lock.Programs, err = l.programs(ctx, r, old); err != nil {
		return err
	}
	l.locked[r.Name] = lock
	if lock.Empty() {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	same := lock
	same.Time = old.Time
	if bytes.Equal(same.Format(), old.Format()) {
		l.Say(r.Name + ": as before")
		return nil
	}
	l.Say(fmt.Sprintf("%s: %d packages, %d wheels, %d jars, %d programs", r.Name, len(lock.Debs), len(lock.Wheels), len(lock.Jars), len(lock.Programs)))
	return os.WriteFile(name, lock.Format(), 0o644) //nolint:gosec // a checked-in file
}

// debs resolves the packages of a recipe, without the packages of its bases.
func (l *locker) debs(ctx context.Context, r *recipe.Recipe) ([]recipe.Deb, error) {
	if len(r.Debs) == 0 {
		return nil, nil
	}
	all, err := l.apt.resolve(ctx, r.Debs)
	if err != nil {
		return nil, err
	}
	below := map[string]bool{}
	chain := l.set.Chain(r)
	for _, one := range chain[:len(chain)-1] {
		for _, d := range l.locked[one.Name].Debs {
			below[d.Name] = true
		}
	}
	unused := slices.DeleteFunc(slices.Clone(r.Exclude), func(name string) bool {
		return slices.ContainsFunc(all, func(d recipe.Deb) bool { return d.Name == name })
	})
	for _, name := range unused {
		l.Say(fmt.Sprintf("%s: nothing needs the excluded %s: take it out of the recipe", r.Name, name))
	}
	return slices.DeleteFunc(all, func(d recipe.Deb) bool {
		return below[d.Name] || r.Without(d.Name)
	}), nil
}

func (l *locker) wheels(ctx context.Context, r *recipe.Recipe) ([]recipe.Wheel, error) {
	wheels := r.Requirements()
	if len(wheels) == 0 {
		return nil, nil
	}
	return l.pip.resolve(ctx, wheels, l.cache)
}

// jars keeps the digests of locked jars, whose bytes never change at their place, and computes others.
func (l *locker) jars(ctx context.Context, r *recipe.Recipe, old recipe.Lock) ([]recipe.Jar, error) {
	var all []recipe.Jar
	for _, text := range r.Jars {
		j, ok := old.Jar(text)
		if !ok {
			j = recipe.NewJar(text)
			var err error
			if j.Blob, err = l.cache.Digest(ctx, fetch.JarURL(j)); err != nil {
				return nil, fmt.Errorf("jar %s: %w", text, err)
			}
		}
		all = append(all, j)
	}
	return all, nil
}

// programs computes the digests of other projects' programs from the toolchain's output.
func (l *locker) programs(ctx context.Context, r *recipe.Recipe, old recipe.Lock) ([]recipe.Binary, error) {
	var all []recipe.Binary
	for _, p := range r.Programs {
		if !p.Locked {
			continue
		}
		i := slices.IndexFunc(old.Programs, func(b recipe.Binary) bool { return b.Name == p.Name && b.Toolchain == l.set.Pins.Toolchain })
		if i >= 0 && !l.Programs {
			all = append(all, old.Programs[i])
			continue
		}
		l.Say("building " + p.Name + " from its Go module; can take minutes")
		b := program.Builder{Root: l.Root, Toolchain: l.set.Pins.Toolchain}
		if err := b.Check(ctx); err != nil {
			return nil, err
		}
		if err := b.Build(ctx, l.work, []program.Source{{Name: p.Name, Module: p.Module, Package: p.Package, Foreign: true}}); err != nil {
			return nil, err
		}
		binary, err := l.keep(filepath.Join(l.work, p.Name))
		if err != nil {
			return nil, err
		}
		binary.Name, binary.Toolchain = p.Name, l.set.Pins.Toolchain
		all = append(all, binary)
	}
	return all, nil
}

func (l *locker) keep(name string) (recipe.Binary, error) {
	f, err := os.Open(name)
	if err != nil {
		return recipe.Binary{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return recipe.Binary{}, err
	}
	sum, err := l.cache.Store(f, "")
	return recipe.Binary{Blob: recipe.Blob{SHA256: sum, Size: info.Size()}}, err
}
