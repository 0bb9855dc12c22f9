package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cadre.dev/core/policy"
)

// listed is the output of `go list` about one package.
type listed struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
}

// packages lists the packages of the parts that answer callers, and where the
// compiled form of everything that they import is.
func packages(t *testing.T) (ours []listed, exports map[string]string) {
	t.Helper()
	parts := []string{"attest", "core", "coordinator", "agent", "overlay"}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles"}
	for _, part := range parts {
		args = append(args, "cadre.dev/"+part+"/...")
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ours, exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		for _, part := range parts {
			if strings.HasPrefix(p.ImportPath+"/", "cadre.dev/"+part+"/") {
				ours = append(ours, p)
			}
		}
	}
}

// inText is a code in a text for people, before a colon.
var inText = regexp.MustCompile(`(?:^|[ :])([A-Z]{2,}(?:_[A-Z]+)+):`)

// notCodes are words in the form of codes that are no codes of the contract: answers of the calls for the
// overlay and for figures, the report of a panic, which refuses nothing, and the refusal of the key service.
var notCodes = map[string]bool{
	"OTHER_COORDINATOR": true, "AGENT_NOT_CONNECTED": true, "METRICS_ABSENT": true, "METRICS_BUSY": true, "METRICS_TOO_LARGE": true, "INTERNAL_ERROR": true,
	"KMS_REFUSED": true,
}

// TestCodesAreOnTheList: every constant that any part uses as a code, or writes in
// front of a message, is on the closed list and has a class.
func TestCodesAreOnTheList(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles everything")
	}
	ours, exports := packages(t)
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	used := map[policy.Code]bool{}
	for _, p := range ours {
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, files, info); err != nil {
			t.Fatal(err)
		}
		for expr, found := range info.Types {
			if found.Value == nil || found.Value.Kind() != constant.String {
				continue
			}
			value, at := constant.StringVal(found.Value), fset.Position(expr.Pos())
			if named, ok := found.Type.(*types.Named); ok && named.Obj().Name() == "Code" && named.Obj().Pkg().Path() == "cadre.dev/core/policy" {
				// The list itself is no use of a code.
				if value != "" && filepath.Base(at.Filename) != "codes.go" {
					used[policy.Code(value)] = true
					known(t, policy.Code(value), at)
				}
				continue
			}
			for _, m := range inText.FindAllStringSubmatch(value, -1) {
				if code := policy.Code(m[1]); !notCodes[m[1]] {
					used[code] = true
					known(t, code, at)
				}
			}
		}
	}
	if len(used) < 40 {
		t.Errorf("only %d codes were found in use", len(used))
	}
	page, err := os.ReadFile("../../../../docs/evidence/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`([A-Z]{2,}(?:_[A-Z]+)+)`").FindAllSubmatch(page, -1) {
		if code := policy.Code(m[1]); !used[code] {
			t.Errorf("the page names %s, which nothing answers", code)
		}
	}
}

func known(t *testing.T, code policy.Code, at token.Position) {
	t.Helper()
	if !code.Known() {
		t.Errorf("%s: %s is not on the list", at, code)
	}
}
