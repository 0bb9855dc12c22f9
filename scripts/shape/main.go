package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const recorded = "scripts/shape/recorded.json"

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("shape", flag.ContinueOnError)
	exact := flags.Bool("exact", false, "print differences only, and fail for a better figure that is not recorded too")
	asJSON := flags.Bool("json", false, "print the figures in the form of recorded.json")
	record := flags.Bool("record", false, "write the figures to recorded.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NFlag() > 1 || flags.NArg() > 0 {
		return errors.New("give one of -exact, -json and -record, or nothing; recorded.json names the packages")
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		return fmt.Errorf("read the record at the root of the repository: %w", err)
	}
	before, err := read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", recorded, err)
	}
	now, err := measure(ctx, before)
	if err != nil {
		return err
	}
	text, err = json.MarshalIndent(now, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	text = append(text, '\n')
	switch {
	case *asJSON:
		_, err = out.Write(text)
		return err
	case *record:
		return os.WriteFile(recorded, text, 0o644) //nolint:gosec // a file of the repository is for every reader
	case !*exact:
		if err := table(out, before, now); err != nil {
			return err
		}
	}
	return compare(out, before, now, *exact)
}

// read decodes a record.
func read(text []byte) ([]Figures, error) {
	var record []Figures
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&record); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("text follows the list: delete it")
	}
	if len(record) == 0 {
		return nil, errors.New("the list names no package")
	}
	seen := make(map[string]bool)
	for _, f := range record {
		if f.Package == "" || seen[f.Package] {
			return nil, fmt.Errorf("package %q is empty or listed twice: name each package once", f.Package)
		}
		seen[f.Package] = true
	}
	return record, nil
}

// measure computes today's figures of the packages in the record.
func measure(ctx context.Context, record []Figures) ([]Figures, error) {
	folders := make([]string, len(record))
	for i, f := range record {
		folders[i] = "./" + f.Package
	}
	files, exports, err := list(ctx, folders...)
	if err != nil {
		return nil, fmt.Errorf("%w\ncorrect the package, or name in %s the one that took its place", err, recorded)
	}
	now := make([]Figures, len(record))
	for i, f := range record {
		dir, err := filepath.Abs(f.Package)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", f.Package, err)
		}
		// go list names folders as the kernel does.
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, fmt.Errorf("find %s: %w", f.Package, err)
		}
		if len(files[dir]) == 0 {
			return nil, fmt.Errorf("%s has no production file: name in %s the package that took its place", f.Package, recorded)
		}
		var sources []source
		for _, name := range files[dir] {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", f.Package, err)
			}
			sources = append(sources, source{name: name, text: text})
		}
		if now[i], err = count(f.Package, f.Type, sources, imports(exports)); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// list asks Go about packages and all their imports. It returns each folder's compiled files, and
// by import path the file with a package's exports.
func list(ctx context.Context, packages ...string) (files map[string][]string, exports map[string]string, err error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}, packages...)
	list := exec.CommandContext(ctx, "go", args...)
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	files, exports = make(map[string][]string), make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := decoder.Decode(&p); err != nil {
			return nil, nil, fmt.Errorf("read what go list says: %w", err)
		}
		files[p.Dir], exports[p.ImportPath] = p.GoFiles, p.Export
	}
	return files, exports, nil
}

// imports reads packages from the files that list names. The importer's default looks for sources
// in the folder of Go, which a program built with -trimpath does not know.
func imports(exports map[string]string) types.Importer {
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("go list has no export data of %s", path)
		}
		return os.Open(exports[path])
	})
}
