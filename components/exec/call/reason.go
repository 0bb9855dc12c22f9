package call

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// CleanReason is the first line of text as people may see it: control characters,
// characters that are not printed and bad UTF-8 are escaped, and it has at most
// ReasonLimit bytes (HK-08).
func CleanReason(text string) string {
	text, _, _ = strings.Cut(strings.TrimLeft(text, "\r\n"), "\n")
	var b strings.Builder
	for rest := strings.TrimSpace(text); rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		piece := rest[:size]
		if !strconv.IsPrint(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.QuoteToASCII(piece)
			piece = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(piece) > ReasonLimit {
			break
		}
		b.WriteString(piece)
		rest = rest[size:]
	}
	return strings.TrimSpace(b.String()) // the cut may have left a blank
}
