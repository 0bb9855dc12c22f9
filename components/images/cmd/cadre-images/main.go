// Command cadre-images makes the OCI images of Cadre and of its examples.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"cadre.dev/images/internal/boot"
	"cadre.dev/images/internal/build"
	"cadre.dev/images/internal/oci"
	"cadre.dev/images/internal/recipe"
	"cadre.dev/images/internal/relock"
)

const usage = `Usage: cadre-images build|reproduce|try|lock|list [flags]

  build      make the images and their documents; --push copies them to a registry
  reproduce  make them twice under different circumstances and compare
  try        unpack each image and run what its recipe tries, in a sandbox
  lock       resolve packages anew (apt-get, pip); --programs also builds programs of others
  list       what a layout has

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "cadre-images:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage, which was printed")

// flags of all commands; each reads its own.
type flags struct {
	build.Options
	push, only string
	programs   bool
	umask      int
}

func parse(args []string, stderr io.Writer) (string, flags, error) {
	var f flags
	set := flag.NewFlagSet("cadre-images", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		_, _ = fmt.Fprint(stderr, usage)
		set.PrintDefaults()
	}
	set.StringVar(&f.Root, "root", ".", "the `folder` of the repository")
	set.StringVar(&f.Out, "out", "", "the `folder` of the layout (default .out/images of the repository)")
	set.StringVar(&f.Cache, "cache", "", "the `folder` of fetched files (default .tools/images of the repository)")
	set.StringVar(&f.Version, "version", "", "tag of the images, and the programs' own version (default: as in recipes/pins.hcl)")
	set.StringVar(&f.Source, "source", "", "state of the repository, for the provenance")
	set.StringVar(&f.only, "only", "", "build these images alone, separated by commas")
	set.StringVar(&f.push, "push", "", "copy the images to this registry and `prefix`, such as registry.example/team")
	set.StringVar(&f.GoCache, "go-cache", "", "Go's build cache (default: the machine's)")
	set.BoolVar(&f.Rebuild, "rebuild", false, "build programs of others also when they are there")
	set.BoolVar(&f.programs, "programs", false, "lock: build programs of others for new digests")
	set.IntVar(&f.umask, "umask", 0o022, "for files that are made")
	if len(args) == 0 {
		set.Usage()
		return "", f, errUsage
	}
	command := args[0]
	if strings.HasPrefix(command, "-") {
		command = ""
	} else {
		args = args[1:]
	}
	if err := set.Parse(args); err != nil {
		return "", f, errors.Join(errUsage, err)
	}
	if command == "" || set.NArg() > 0 {
		_, _ = fmt.Fprintf(stderr, "cadre-images: give one command, then flags\n\n")
		set.Usage()
		return "", f, errUsage
	}
	return command, f, f.complete()
}

func (f *flags) complete() error {
	var err error
	if f.Root, err = filepath.Abs(f.Root); err != nil {
		return err
	}
	// A link to the repository is followed here, once.
	if f.Root, err = filepath.EvalSymlinks(f.Root); err != nil {
		return fmt.Errorf("--root: %w", err)
	}
	if _, err := os.Stat(filepath.Join(f.Root, "go.work")); err != nil {
		return fmt.Errorf("--root: %s is not the repository: it has no go.work", f.Root)
	}
	if f.Out, err = filepath.Abs(cmp.Or(f.Out, filepath.Join(f.Root, ".out/images"))); err != nil {
		return err
	}
	if f.Cache, err = filepath.Abs(cmp.Or(f.Cache, filepath.Join(f.Root, ".tools/images"))); err != nil {
		return err
	}
	if f.only != "" {
		f.Only = strings.Split(f.only, ",")
	}
	f.Env = os.Getenv
	return nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command, f, err := parse(args, stderr)
	if err != nil {
		return err
	}
	f.Say = func(line string) { _, _ = fmt.Fprintln(stderr, "images:", line) }
	syscall.Umask(f.umask)
	began := time.Now()
	switch command {
	case "build":
		results, err := build.Run(ctx, f.Options)
		if err != nil {
			return err
		}
		table(stdout, results)
		f.Say(fmt.Sprintf("%d images in %s after %.1f s", len(results), f.Out, time.Since(began).Seconds()))
		return push(ctx, f)
	case "reproduce":
		results, err := build.Reproduce(ctx, f.Options, f.again)
		if err != nil {
			return err
		}
		table(stdout, results)
		f.Say(fmt.Sprintf("built twice, the same: %d images after %.1f s", len(results), time.Since(began).Seconds()))
		return nil
	case "lock":
		return relock.Run(ctx, relock.Options{Root: f.Root, Cache: f.Cache, Now: time.Now(), Programs: f.programs, Env: f.Env, Say: f.Say})
	case "try":
		return try(ctx, f, stdout)
	case "list":
		return list(stdout, f.Out)
	}
	_, _ = fmt.Fprintf(stderr, "cadre-images: no command is called %q\n\n%s", command, usage)
	return errUsage
}

// again is this program, about to build under other circumstances.
func (f *flags) again(ctx context.Context, root, out, goCache string) *exec.Cmd {
	args := []string{"build", "--root", root, "--out", out, "--cache", f.Cache, "--go-cache", goCache, "--umask", "63", "--version", f.Version, "--source", f.Source, "--only", f.only}
	if f.Rebuild {
		args = append(args, "--rebuild")
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TZ=Asia/Kathmandu", "LC_ALL=C", "LANG=C", "GOMAXPROCS=3", "SOURCE_DATE_EPOCH=1")
	return cmd
}

func push(ctx context.Context, f flags) error {
	if f.push == "" {
		return nil
	}
	images, err := oci.ReadLayout(f.Out)
	if err != nil {
		return err
	}
	_, err = oci.Push(ctx, f.push, images, nil, f.Say)
	return err
}

func table(w io.Writer, results []build.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "IMAGE\tDIGEST\tCOMPRESSED\tITS OWN\tUNPACKED\tTIME")
	for _, r := range results {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%.1f MB\t%.1f MB\t%.1f MB\t%.1f s\n", r.Ref, r.Digest, float64(r.Size)/1e6, float64(r.Own)/1e6, float64(r.Raw)/1e6, r.Took.Seconds())
	}
	_ = t.Flush()
}

// try runs every image of the layout that has a recipe.
func try(ctx context.Context, f flags, w io.Writer) error {
	if err := boot.Sandbox(ctx); err != nil {
		return err
	}
	set, err := recipe.Load(filepath.Join(f.Root, build.Recipes), true)
	if err != nil {
		return err
	}
	images, err := oci.ReadLayout(f.Out)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range images {
		name, _, _ := strings.Cut(n.Ref, ":")
		i := slices.IndexFunc(set.Images(), func(r *recipe.Recipe) bool { return r.Name == name })
		if i < 0 || (len(f.Only) > 0 && !slices.Contains(f.Only, name)) {
			continue
		}
		said, err := boot.Try(ctx, n, set.Images()[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s runs:\n  %s\n", n.Ref, strings.ReplaceAll(strings.TrimSpace(said), "\n", "\n  "))
	}
	return errors.Join(errs...)
}

func list(w io.Writer, dir string) error {
	images, err := oci.ReadLayout(dir)
	if err != nil {
		return err
	}
	for _, n := range images {
		_, _ = fmt.Fprintf(w, "%s %s\n", n.Ref, n.Image.Descriptor.Digest)
		for _, a := range n.About {
			_, _ = fmt.Fprintf(w, "  %s %s\n", a.Descriptor.ArtifactType, a.Descriptor.Digest)
		}
	}
	return nil
}
