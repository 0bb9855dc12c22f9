// Command vulnerabilities looks up every Go package that Cadre compiles in Go's vulnerability
// database. The database is the module golang.org/x/vulndb, pinned in scripts/tools.sh: the lookup
// needs no network once that module is cached. A vulnerability that accepted.txt does not name is
// an error. An accepted vulnerability that is no longer found is an error too, which keeps the list
// true.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const accepted = "scripts/vulnerabilities/accepted.txt"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
		os.Exit(1)
	}
}

// run scans the modules, from the root of the repository.
func run(ctx context.Context, modules []string) error {
	database, err := filepath.Abs(".tools/vulndb/data/osv")
	if err != nil {
		return fmt.Errorf("find the database: %w", err)
	}
	if _, err := os.Stat(database); err != nil {
		return fmt.Errorf("find the database: %w (make tools-dev links it)", err)
	}
	toolchain, err := pinned()
	if err != nil {
		return err
	}
	found := make(map[string]string)
	for _, module := range modules {
		cmd := exec.CommandContext(ctx, "govulncheck", "-db", "file://"+database, "-scan", "package", "-format", "json", "-C", module, "./...")
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+toolchain)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("scan %s: %w", module, err)
		}
		ids, err := findings(bytes.NewReader(out))
		if err != nil {
			return fmt.Errorf("scan %s: %w", module, err)
		}
		for _, id := range ids {
			found[id] = module
		}
	}
	list, err := os.ReadFile(accepted)
	if err != nil {
		return fmt.Errorf("read what is accepted: %w", err)
	}
	return judge(found, string(list))
}

// pinned returns the toolchain of the images. The images' standard library is judged instead of
// this machine's, so the result is the same on each machine.
func pinned() (string, error) {
	const file = "components/images/recipes/pins.hcl"
	pins, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("find the images' toolchain: %w", err)
	}
	m := regexp.MustCompile(`(?m)^toolchain *= *"(go[0-9.]+)"`).FindSubmatch(pins)
	if m == nil {
		return "", fmt.Errorf("%s names no toolchain", file)
	}
	return string(m[1]), nil
}

// findings reads a report of govulncheck in its JSON format, and returns the identifiers of the
// vulnerabilities in compiled packages. A report without a list of modules is an error: a broken
// scan must not pass for a scan without findings.
func findings(report io.Reader) ([]string, error) {
	ids := make(map[string]bool)
	scanned := false
	for dec := json.NewDecoder(report); ; {
		var message struct {
			SBOM *struct {
				Modules []json.RawMessage `json:"modules"`
			} `json:"SBOM"`
			Finding *struct {
				OSV   string `json:"osv"`
				Trace []struct {
					Package string `json:"package"`
				} `json:"trace"`
			} `json:"finding"`
		}
		err := dec.Decode(&message)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the report: %w", err)
		}
		scanned = scanned || message.SBOM != nil && len(message.SBOM.Modules) > 0
		// A finding that names no package is of a module of which nothing vulnerable is compiled.
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" {
			ids[f.OSV] = true
		}
	}
	if !scanned {
		return nil, errors.New("the report lists no modules: nothing was scanned")
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// judge compares the found vulnerabilities, by identifier and with a module that has it, with the
// lines "identifier date reason" of the accepted list.
func judge(found map[string]string, list string) error {
	var problems []error
	known := make(map[string]bool)
	for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			problems = append(problems, fmt.Errorf("%s: %q is no identifier, date and reason", accepted, line))
			continue
		}
		if _, err := time.Parse(time.DateOnly, f[1]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s has no date such as 2026-11-28: %w", accepted, f[0], err))
		}
		known[f[0]] = true
		if _, ok := found[f[0]]; !ok {
			problems = append(problems, fmt.Errorf("%s: no package has %s any more; remove its line", accepted, f[0]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if !known[id] {
			problems = append(problems, fmt.Errorf("%s has %s (https://pkg.go.dev/vuln/%s): raise the dependency, or accept it in %s with the date and the reason", found[id], id, id, accepted))
		}
	}
	return errors.Join(problems...)
}
