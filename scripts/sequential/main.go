// Program sequential fails where a Go file of a folder begins a goroutine, or has channels, locks
// or atomics, which only goroutines need. Packages without any are tested without the race
// detector, which has nothing to find in them and takes up to ten times as long.
//
//	sequential folder...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	found, err := look(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sequential:", err)
		os.Exit(1)
	}
	for _, where := range found {
		fmt.Fprintln(os.Stderr, "sequential:", where)
	}
	if len(found) > 0 {
		fmt.Fprintln(os.Stderr, "sequential: take the package off the list `sequential` in scripts/test.sh: it needs the race detector")
		os.Exit(1)
	}
}

// look gives the places in the folders' files, tests too, that are not sequential.
func look(folders []string) ([]string, error) {
	var found []string
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", folder, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no Go file: name folders of packages", folder)
		}
		for _, path := range files {
			places, err := concurrent(path, nil)
			if err != nil {
				return nil, err
			}
			found = append(found, places...)
		}
	}
	return found, nil
}

// concurrent gives the places in one file, whose text is src unless that is nil.
func concurrent(path string, src any) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if what := shared(n); what != "" {
			found = append(found, fmt.Sprintf("%s: %s", set.Position(n.Pos()), what))
		}
		return true
	})
	return found, nil
}

// shared names the node's use of goroutines, "" for none.
func shared(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "begins a goroutine"
	case *ast.ChanType:
		return "has a channel"
	case *ast.SelectStmt:
		return "selects"
	case *ast.ImportSpec:
		path, err := strconv.Unquote(n.Path.Value)
		if err == nil && (path == "sync" || strings.HasPrefix(path, "sync/") || strings.HasSuffix(path, "/synctest") || strings.HasSuffix(path, "/errgroup")) {
			return "imports " + path
		}
	}
	return ""
}
