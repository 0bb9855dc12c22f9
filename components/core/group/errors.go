package group

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is what every *ValidationError is (errors.Is).
var ErrInvalid = errors.New("invalid group spec")

// Problem is one thing that is wrong with a spec.
type Problem struct {
	// Path names the field as operators write it, e.g. "update_policy.partition".
	Path string `json:"path"`
	// Message says what is wrong and the way out.
	Message string `json:"message"`
	// Rule is the id of the rule behind it, e.g. "R15"; empty for plain grammar.
	Rule string `json:"rule,omitempty"`
}

// String is the problem in one line.
func (p Problem) String() string {
	if p.Rule == "" {
		return p.Path + ": " + p.Message
	}
	return fmt.Sprintf("%s: %s (%s)", p.Path, p.Message, p.Rule)
}

// ValidationError carries all problems of one spec, ordered by where the field
// stands in the document.
type ValidationError struct {
	Group    string
	Problems []Problem
}

// Error lists every problem, one per line after the first.
func (e *ValidationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "group %q: %d problem(s)", e.Group, len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// Is makes every ValidationError an ErrInvalid.
func (e *ValidationError) Is(target error) bool { return target == ErrInvalid }
