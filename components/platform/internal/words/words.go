// Package words reads the words of a platform: ids, domains, and text for people. None of it is evidence,
// and all of it may be hostile.
package words

import (
	"regexp"
	"strings"
	"unicode"
)

// ID compares app ids, instance ids and hashes: no prefix, lower case.
func ID(id string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	id = strings.TrimPrefix(id, "app_")
	return strings.TrimPrefix(id, "0x")
}

// domainForm has at least two labels, and nothing that could lead a URL elsewhere.
var domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Domain is the domain that s names, in lower case; "" where s is none, or has 200 bytes or more.
func Domain(s string) string {
	if s = strings.ToLower(s); len(s) < 200 && domainForm.MatchString(s) {
		return s
	}
	return ""
}

// OneLine makes foreign text safe to print: one line, no control characters, at most limit bytes and
// an ellipsis.
func OneLine(s string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	clean = strings.Join(strings.Fields(clean), " ")
	if len(clean) > limit {
		clean = strings.ToValidUTF8(clean[:limit], "") + "..."
	}
	return clean
}
