package build

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"cadre.dev/images/internal/tree"
)

// libraries are the folders that the distribution's loader searches by default.
var libraries = []string{"usr/lib/x86_64-linux-gnu", "usr/lib"}

// missingLibraries finds programs and libraries of a layer that need a library which no
// package has: something that a recipe excludes is needed after all.
func missingLibraries(t *tree.Tree) error {
	var errs []error
	for _, e := range t.Entries() {
		if e.Kind != tree.File || e.Body.Size < 64 || (e.Mode&0o111 == 0 && !strings.Contains(path.Base(e.Path), ".so")) {
			continue
		}
		needed, folders, err := dynamic(e)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		for _, name := range needed {
			if !slices.ContainsFunc(append(folders, libraries...), func(folder string) bool {
				_, ok := t.Find(path.Join(folder, name))
				return ok
			}) {
				errs = append(errs, fmt.Errorf("%s of %s needs %s, which no package here has", e.Path, e.Origin, name))
			}
		}
	}
	return errors.Join(errs...)
}

// dynamic lists an ELF file's needed libraries and its first search folders; nothing for other
// files.
func dynamic(e tree.Entry) (needed, folders []string, err error) {
	if e.Body.File == "" {
		return parse(strings.NewReader(string(e.Body.Data)), e.Path)
	}
	f, err := os.Open(e.Body.File)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	return parse(io.NewSectionReader(f, e.Body.Offset, e.Body.Size), e.Path)
}

func parse(r io.ReaderAt, name string) (needed, folders []string, err error) {
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := r.ReadAt(magic, 0); err != nil || string(magic) != elf.ELFMAG {
		return nil, nil, nil // a script or data
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read ELF file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if needed, err = f.ImportedLibraries(); err != nil || len(needed) == 0 {
		return nil, nil, nil // static: it has no dynamic section
	}
	// Libraries of a wheel are in one folder: a loaded library has its neighbours loaded. Those of Java come after
	// its machine, which is in the folder server.
	folders = []string{path.Dir(name), path.Join(path.Dir(name), "server")}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, _ := f.DynString(tag)
		for _, p := range paths {
			for one := range strings.SplitSeq(p, ":") {
				folders = append(folders, strings.NewReplacer("$ORIGIN", path.Dir(name), "${ORIGIN}", path.Dir(name)).Replace(one))
			}
		}
	}
	return needed, folders, nil
}
