package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Builder builds programs of one repository.
type Builder struct {
	// Root is the folder of go.work.
	Root string
	// Toolchain is the Go release that builds: "go1.26.8".
	Toolchain string
	// Version is the version that our programs print.
	Version string
	// Cache is Go's own build cache; empty is the machine's.
	Cache string
}

// Source is a program to build.
type Source struct {
	// Name of the program; Module is its folder below Root, Package the built package there.
	Name, Module, Package string
	// Foreign programs come from a separate module that pins other projects' programs.
	Foreign bool
}

// settings decide the compiler's output; each setting of a machine is overridden.
func (b Builder) settings(foreign bool) []string {
	work := filepath.Join(b.Root, "go.work")
	if foreign {
		work = "off"
	}
	env := []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "GOENV=off", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=",
		"GOTOOLCHAIN=" + b.Toolchain, "GOWORK=" + work, "GO111MODULE=on", "LC_ALL=C", "TZ=UTC",
	}
	if b.Cache != "" {
		env = append(env, "GOCACHE="+b.Cache)
	}
	return env
}

// Check asks Go whether the pinned toolchain is available. Go fetches a missing one, unless the
// machine forbids it.
func (b Builder) Check(ctx context.Context) error {
	out, err := b.run(ctx, b.Root, true, "env", "GOVERSION")
	if err == nil && strings.TrimSpace(out) == b.Toolchain {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it is %s", strings.TrimSpace(out))
	}
	return fmt.Errorf("images are built by %s, which Go would fetch automatically: %w; install that release, or let Go reach its module proxy", b.Toolchain, err)
}

// Build writes the programs into dir, which must be there.
func (b Builder) Build(ctx context.Context, dir string, sources []Source) error {
	var ours []string
	for _, s := range sources {
		if s.Foreign {
			if err := b.foreign(ctx, dir, s); err != nil {
				return err
			}
			continue
		}
		ours = append(ours, "./"+filepath.ToSlash(filepath.Join(s.Module, s.Package)))
	}
	if len(ours) == 0 {
		return nil
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + b.Version, "-o", dir + "/"}
	_, err := b.run(ctx, b.Root, false, append(args, ours...)...)
	return err
}

func (b Builder) foreign(ctx context.Context, dir string, s Source) error {
	_, err := b.run(ctx, filepath.Join(b.Root, s.Module), true,
		"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, s.Name), s.Package)
	return err
}

// Module is a Go module that is in a program.
type Module struct {
	Path, Version string
	// Dir is where its source is.
	Dir string
}

// Library is the name of the standard library among modules.
const Library = "stdlib"

// Modules lists the modules of a program, without ours and with the standard library as the last.
// It fetches the modules whose source is not on this machine.
func (b Builder) Modules(ctx context.Context, s Source) ([]Module, error) {
	dir, pkg := b.Root, "./"+filepath.ToSlash(filepath.Join(s.Module, s.Package))
	if s.Foreign {
		dir, pkg = filepath.Join(b.Root, s.Module), s.Package
	}
	const form = `{{with .Module}}{{if .Version}}{{with .Replace}}{{.Path}} {{.Version}} {{.Dir}}{{else}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}`
	out, err := b.run(ctx, dir, s.Foreign, "list", "-buildvcs=false", "-deps", "-f", form, pkg)
	if err != nil {
		return nil, err
	}
	var all []Module
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) != 3 || f[1] == "" || seen[f[0]] || strings.HasPrefix(f[0], "cadre.dev/") {
			continue
		}
		seen[f[0]] = true
		all = append(all, Module{f[0], f[1], f[2]})
	}
	root, err := b.run(ctx, b.Root, true, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y Module) int { return strings.Compare(x.Path, y.Path) })
	return append(all, Module{Library, strings.TrimPrefix(b.Toolchain, "go"), strings.TrimSpace(root)}), nil
}

func (b Builder) run(ctx context.Context, dir string, foreign bool, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PWD="+dir), b.settings(foreign)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("go is not on PATH")
		}
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.String(), nil
}
