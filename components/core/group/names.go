package group

import "cadre.dev/core/slotname"

const (
	// MaxReplicas bounds a group; ordinals stay below it.
	MaxReplicas = slotname.MaxOrdinals
	// MaxDriven bounds a group whose workload has a driver: each report names the others.
	MaxDriven = 100
	// Coordinators is the name that no operator's group may take: its SPIFFE path
	// is that of the coordinators.
	Coordinators = "coordinator"
)

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
func NameProblem(name string) string { return slotname.Problem(name) }
