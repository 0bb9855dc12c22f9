package groupfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Error lists all problems of a set of files.
type Error struct {
	// Problems in file order, each "file:line: summary: detail".
	Problems []string
}

// Error lists all problems, one per line.
func (e *Error) Error() string { return strings.Join(e.Problems, "\n") }

func newError(diags hcl.Diagnostics) error {
	e := &Error{}
	sorted := slices.Clone(diags)
	slices.SortStableFunc(sorted, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return 0
		}
		return cmp.Or(strings.Compare(a.Subject.Filename, b.Subject.Filename), a.Subject.Start.Line-b.Subject.Start.Line)
	})
	for _, d := range sorted {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := strings.TrimSuffix(d.Summary, ".")
		if d.Detail != "" {
			text += ": " + strings.Join(strings.Fields(d.Detail), " ")
		}
		if d.Subject != nil {
			text = position(*d.Subject) + ": " + text
		}
		e.Problems = append(e.Problems, text)
	}
	return e
}

func position(r hcl.Range) string {
	if r.Filename == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line)
}

// readBounded reads a whole file of at most maxFile bytes.
func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, unwrapPath(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, unwrapPath(err))
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read %s: larger than %d bytes", name, maxFile)
	}
	return text, nil
}

// unwrapPath drops the path, because the caller's error has it already.
func unwrapPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
