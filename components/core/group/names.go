package group

import "fmt"

const (
	// maxName is the strictest bound of all places where a name is used.
	maxName = 40
	// MaxReplicas bounds a group; ordinals stay below it.
	MaxReplicas = 2000
	// MaxDriven bounds a group whose workload has a driver: each report names the others.
	MaxDriven = 100
	// Coordinators is the name that no operator's group may take: its SPIFFE path
	// is that of the coordinators.
	Coordinators = "coordinator"
)

// nameProblem is the one grammar of names (threat row IDN-02): lower-case
// letters, digits and single '-', from a letter to a letter or digit. It is
// empty when name is fine.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), maxName)
	case name[0] < 'a' || name[0] > 'z':
		return "must start with a lower-case letter"
	case name[len(name)-1] == '-':
		return "must not end with '-'"
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && name[i-1] != '-':
		case c == '-':
			return "must not contain '--'"
		default:
			return fmt.Sprintf("contains %q: only lower-case letters, digits and '-' are allowed", c)
		}
	}
	return ""
}

// isEnvName reports ^[A-Za-z_][A-Za-z0-9_]*$, at most 128 bytes.
func isEnvName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// isHex reports exactly n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isPlainWord reports a non-empty word of visible ASCII without blanks, quotes or '$'.
func isPlainWord(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c > '~', c == '"', c == '\'', c == '$', c == '`', c == '\\':
			return false
		}
	}
	return true
}

// NameProblem reports why name is no valid name (IDN-02), "" if it is valid.
func NameProblem(name string) string { return nameProblem(name) }
