package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"cadre.dev/images/internal/bom"
	"cadre.dev/images/internal/fetch"
	"cadre.dev/images/internal/oci"
	"cadre.dev/images/internal/program"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/tree"
)

// Recipes is where recipes are in the repository.
const Recipes = "components/images/recipes"

// Options select the images and the folders.
type Options struct {
	// Root is the repository, absolute.
	Root string
	// Out is the folder of the layout; documents about images are in Out + "-about".
	Out string
	// Cache keeps fetched files, and other projects' programs.
	Cache string
	// Version is the tag of images; empty is the recipes' own.
	Version string
	// Source names the state of the repository in the provenance; empty is not known.
	Source string
	// Only names images; empty is all of them.
	Only []string
	// GoCache is a build cache of Go; empty is the machine's.
	GoCache string
	// Fresh also builds images that would be the same as the present ones.
	Fresh bool
	// Rebuild builds programs of others also when they are there.
	Rebuild bool
	// Env reads the environment.
	Env func(string) string
	// Say prints a line of progress.
	Say func(string)
}

// Result is one image that was made.
type Result struct {
	Ref, Digest string
	// Size is compressed, Raw is not; Own is the compressed part that no other image has.
	// All in bytes.
	Size, Raw, Own int64
	Layers         int
	// Took is the time for the layers that are its own.
	Took time.Duration
}

// layer is a recipe that was made.
type layer struct {
	recipe     *recipe.Recipe
	tree       *tree.Tree
	blob       oci.Blob
	time       time.Time
	components []bom.Component
	inputs     []bom.Input
	took       time.Duration
}

// run is one build.
type run struct {
	Options
	set      *recipe.Set
	cache    *fetch.Cache
	builder  program.Builder
	work     string
	programs map[string]binary
	layers   map[string]*layer
}

// Run builds the images and writes the layout.
func Run(ctx context.Context, o Options) ([]Result, error) {
	r, wanted, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if r.work, err = os.MkdirTemp("", "cadre-images-"); err != nil {
		return nil, fmt.Errorf("make a folder for the build: %w", err)
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	if err := r.builder.Check(ctx); err != nil {
		return nil, err
	}
	recipes := r.needed(wanted)
	dir, release, err := r.programFolder(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := r.buildPrograms(ctx, dir, recipes); err != nil {
		return nil, err
	}
	inputs, err := r.inputs(wanted)
	if err != nil {
		return nil, err
	}
	if results, ok := r.unchanged(inputs); ok && !r.Fresh && !r.Rebuild {
		r.Say("nothing has changed since they were built")
		return results, nil
	}
	return r.make(ctx, recipes, wanted, inputs)
}

// make makes the layout of the programs that are there.
func (r *run) make(ctx context.Context, recipes, wanted []*recipe.Recipe, inputs string) ([]Result, error) {
	if err := r.fetch(ctx, recipes); err != nil {
		return nil, err
	}
	if err := r.allNotices(ctx, recipes); err != nil {
		return nil, err
	}
	if err := r.makeLayers(ctx, recipes); err != nil {
		return nil, err
	}
	if err := r.removeStamp(); err != nil {
		return nil, err
	}
	results, err := r.write(wanted)
	if err != nil {
		return nil, err
	}
	return results, r.leaveStamp(inputs, results)
}

func prepare(o Options) (*run, []*recipe.Recipe, error) {
	set, err := recipe.Load(filepath.Join(o.Root, Recipes), true)
	if err != nil {
		return nil, nil, err
	}
	o.Version = cmp.Or(o.Version, set.Pins.Version)
	if !recipe.VersionForm.MatchString(o.Version) {
		return nil, nil, fmt.Errorf("--version: %q cannot be the tag of an image: letters, digits, dots and dashes", o.Version)
	}
	wanted := set.Images()
	names := make([]string, 0, len(wanted))
	for _, w := range wanted {
		names = append(names, w.Name)
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("--only: no image is called %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	if len(o.Only) > 0 {
		wanted = slices.DeleteFunc(wanted, func(w *recipe.Recipe) bool { return !slices.Contains(o.Only, w.Name) })
	}
	cache, err := fetch.Open(o.Cache)
	if err != nil {
		return nil, nil, err
	}
	return &run{
		Options: o, set: set, cache: cache, programs: map[string]binary{}, layers: map[string]*layer{},
		builder: program.Builder{Root: o.Root, Toolchain: set.Pins.Toolchain, Version: o.Version, Cache: o.GoCache},
	}, wanted, nil
}

// needed are the recipes of the images and of their bases, lowest first.
func (r *run) needed(wanted []*recipe.Recipe) []*recipe.Recipe {
	names := map[string]bool{}
	for _, w := range wanted {
		for _, below := range r.set.Chain(w) {
			names[below.Name] = true
		}
	}
	return slices.DeleteFunc(r.set.All(), func(one *recipe.Recipe) bool { return !names[one.Name] })
}

// fetch gets every package that is not there yet.
func (r *run) fetch(ctx context.Context, recipes []*recipe.Recipe) error {
	mirrors := fetch.ReadMirrors("/etc/apt")
	indexes := fetch.ReadIndexes(r.Env, fetch.PipFiles(r.Env("HOME")))
	var items []fetch.Item
	for _, one := range recipes {
		for _, d := range one.Lock.Debs {
			items = append(items, fetch.Item{
				Name: "deb " + d.Name + " " + d.Version, Where: where(one, d.Line), SHA256: d.SHA256, Size: d.Size,
				From: func(context.Context) ([]string, error) { return mirrors.Of(d, one.Lock.Time), nil },
				Help: "Mirrors drop versions that newer ones replace: lock today's with make images-lock, and look at what that changes.",
			})
		}
		for _, j := range one.Lock.Jars {
			items = append(items, fetch.JarItem(j, where(one, j.Line)))
		}
		for _, w := range one.Lock.Wheels {
			items = append(items, fetch.Item{
				Name: "wheel " + w.Name + " " + w.Version, Where: where(one, w.Line), SHA256: w.SHA256, Size: w.Size,
				From: func(ctx context.Context) ([]string, error) { return indexes.Of(ctx, w) },
				Help: "If the index has withdrawn it, name another version in the recipe and lock it with make images-lock.",
			})
		}
	}
	return r.cache.Ensure(ctx, items, r.Say)
}

// where names a line of a lock.
func where(one *recipe.Recipe, line int) string {
	return fmt.Sprintf("%s/%s.lock:%d", Recipes, one.Name, line)
}

// makeLayers makes recipes, those on the same height side by side.
func (r *run) makeLayers(ctx context.Context, recipes []*recipe.Recipe) error {
	for len(recipes) > 0 {
		height := len(r.set.Chain(recipes[0]))
		n := slices.IndexFunc(recipes, func(one *recipe.Recipe) bool { return len(r.set.Chain(one)) != height })
		if n < 0 {
			n = len(recipes)
		}
		made := make([]*layer, n)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.NumCPU())
		for i, one := range recipes[:n] {
			group.Go(func() (err error) {
				made[i], err = r.makeLayer(ctx, one, r.layers[one.From])
				if err != nil {
					return fmt.Errorf("%s: %w", one.Name, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, l := range made {
			r.layers[l.recipe.Name] = l
		}
		recipes = recipes[n:]
	}
	return nil
}

func (r *run) makeLayer(ctx context.Context, one *recipe.Recipe, below *layer) (*layer, error) {
	began := time.Now()
	l := &layer{recipe: one, tree: tree.New(nil), time: one.Lock.Time}
	if below != nil {
		l.tree = tree.New(below.tree)
		if l.time.IsZero() {
			l.time = below.time
		}
	}
	if l.time.IsZero() {
		return nil, errors.New("neither the recipe nor its base has a lock, which gives its time")
	}
	l.inputs = append(l.inputs, bom.Input{Name: Recipes + "/" + one.Name + ".hcl", SHA256: oci.Bytes("", one.Text).DiffID.Hex})
	if err := r.fill(ctx, l); err != nil {
		return nil, err
	}
	if err := missingLibraries(l.tree); err != nil {
		return nil, err
	}
	blob, err := oci.Layer(r.work, func(w io.Writer) error { return l.tree.WriteTar(w, l.time) })
	if err != nil {
		return nil, err
	}
	l.blob, l.took = blob, time.Since(began)
	return l, nil
}

// compressor names the compressor of layers, with its version.
func compressor() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/klauspost/compress" {
				return m.Path + " " + m.Version + ", gzip level 6"
			}
		}
	}
	return "github.com/klauspost/compress, gzip level 6"
}
