// Package version reads release numbers of workloads, as image tags, settings and drivers write them.
package version

import (
	"slices"
	"strconv"
	"strings"
)

// maxBytes bounds a version's text; maxNumbers and maxDigits bound its numbers.
const (
	maxBytes   = 64
	maxNumbers = 4
	maxDigits  = 6
)

// Version is a parsed release number. The zero value is unknown.
type Version struct {
	numbers []int
}

// Parse reads one to four numbers with dots between them, such as "3.6.16", with an optional "v" before and an
// optional "-suffix" after them, such as "v3.6.16" and "17.2-bookworm". Leading zeros and all other texts, such as
// "latest", are not known: ok is false.
func Parse(text string) (v Version, ok bool) {
	if len(text) > maxBytes {
		return Version{}, false
	}
	text, suffix, suffixed := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	if suffixed && !isSuffix(suffix) {
		return Version{}, false
	}
	parts := strings.Split(text, ".")
	if len(parts) > maxNumbers {
		return Version{}, false
	}
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || len(part) > maxDigits || strconv.FormatUint(n, 10) != part {
			return Version{}, false
		}
		v.numbers = append(v.numbers, int(n))
	}
	return v, true
}

func isSuffix(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Trim(s, letters+"0123456789.-_+") == ""
}

// Known reports that v was parsed.
func (v Version) Known() bool { return len(v.numbers) > 0 }

// String has the numbers alone.
func (v Version) String() string {
	var parts []string
	for _, n := range v.numbers {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// Line is the release line of v, its first parts numbers, such as "3.6" of 3.6.16; "": v has fewer numbers.
func (v Version) Line(parts int) string {
	if len(v.numbers) < parts {
		return ""
	}
	return Version{v.numbers[:parts]}.String()
}

// Compare orders versions by their numbers; a missing number counts as 0.
func (v Version) Compare(o Version) int {
	pad := func(v Version) []int {
		return append(slices.Clone(v.numbers), make([]int, maxNumbers-len(v.numbers))...)
	}
	return slices.Compare(pad(v), pad(o))
}

// Names reports that v is o, or that o only has more numbers: 3.6 names 3.6.16.
func (v Version) Names(o Version) bool {
	n := min(len(v.numbers), len(o.numbers))
	return slices.Equal(v.numbers[:n], o.numbers[:n])
}
