// Package dedup detects texts that differ only in their numbers ("704 bytes behind"). Such a change
// is not worth a write that wakes the whole cluster.
package dedup

import "strings"

// Same reports whether two texts are equal except for their numbers.
func Same(a, b string) bool { return a == b || wording(a) == wording(b) }

// wording returns text with each number, fraction included, as one mark.
func wording(text string) string {
	var out strings.Builder
	number := false
	for _, r := range text {
		digit := r >= '0' && r <= '9'
		switch {
		case digit && !number:
			out.WriteByte('#')
		case !digit && (!number || r != '.'):
			out.WriteRune(r)
		}
		number = digit || number && r == '.'
	}
	return out.String()
}
