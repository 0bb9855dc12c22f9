package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid matches every *ValidationError (errors.Is).
var ErrInvalid = errors.New("invalid group spec")

// Problem is one thing that is wrong with a spec.
type Problem struct {
	// Path names the field as operators write it, e.g. "update_policy.partition".
	Path string `json:"path"`
	// Message states the problem and the way out.
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

// ValidationError carries all problems of one spec, ordered by the position of the field in the
// document.
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

// And joins e with other, an error about the rest of the same spec. A problem of other is left out
// when e has a problem of the same field or of a field that contains it. Either may be nil.
func (e *ValidationError) And(other error) error {
	var more *ValidationError
	switch {
	case e == nil:
		return other
	case errors.As(other, &more):
		return &ValidationError{Group: e.Group, Problems: append(slices.Clone(e.Problems), Apart(more.Problems, e.Problems)...)}
	}
	return errors.Join(e, other)
}

// Apart returns the problems that are neither about a field of wrong nor about a part of one.
func Apart(problems, wrong []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool {
		return slices.ContainsFunc(wrong, func(w Problem) bool { return Within(p.Path, w.Path) })
	})
}

// Within reports that a path is that of the field, or of something in it.
func Within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
