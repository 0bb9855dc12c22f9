// Package hashchain has the digests of entries that name the digest of the entry before them.
package hashchain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Digest is the SHA-256 of a kind and the JSON of an entry, 64 lower-case hex digits. kind keeps
// entries of different chains apart.
func Digest(kind string, entry any) string {
	text, err := json.Marshal(entry)
	if err != nil {
		return "" // no such value: every field can be encoded
	}
	sum := sha256.Sum256(append([]byte(kind), text...))
	return hex.EncodeToString(sum[:])
}

// Start is the digest that the first entry of a chain names as its predecessor's.
func Start(chain, name string) string {
	sum := sha256.Sum256([]byte(chain + name))
	return hex.EncodeToString(sum[:])
}

// Truncate bounds a text to most bytes of JSON, in which some characters take six bytes. It leaves
// out bytes that JSON cannot carry: they would be read back as others, and not fit the digest.
func Truncate(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	size := 0
	for i, r := range text {
		if size += sizeInJSON(r); size > most {
			return text[:i] + "..."
		}
	}
	return text
}

func sizeInJSON(r rune) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}
