package group

import "strings"

// SameOSImage compares names of OS images as specs and platforms write them: one of the
// two may carry a suffix "-<first digits of the image's hash>".
func SameOSImage(a, b string) bool {
	return a == b || suffixed(a, b) || suffixed(b, a)
}

func suffixed(long, short string) bool {
	const fewest = 6 // digits of a hash; fewer are a version
	digits, ok := strings.CutPrefix(long, short+"-")
	return ok && short != "" && len(digits) >= fewest && isHex(digits, len(digits))
}
