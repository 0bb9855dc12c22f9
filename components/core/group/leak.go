package group

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// leak says why a text looks like a secret; "" that it does not.
type leak string

const (
	leakPrivateKey leak = "holds a private key"
	leakKnownToken leak = "holds an access token of a known service"
	leakURL        leak = "holds a URL with a password in it"
	leakName       leak = "is named like a secret"
	leakRandom     leak = "looks like random bytes"
)

// certain leaks cannot be declared harmless.
func (l leak) certain() bool { return l == leakPrivateKey || l == leakKnownToken }

// wayOut names the alternative for the error text.
func (l leak) wayOut() string {
	const declare = `declare a secret "name" { } block, and the workload reads it from /run/mesh/secrets/name`
	if l == leakName || l == leakRandom {
		return declare + "; if it is no secret, list its name in not_secret"
	}
	return declare
}

// leakIn judges one named value of env, meta or settings.
func leakIn(name, value string) leak {
	if l := leakInText(value); l != "" {
		return l
	}
	describes := describing(name)
	switch {
	case harmless(value) || describes || plural(name) && strings.IndexFunc(value, notDigit) < 0:
		return ""
	case secretName(name):
		return leakName
	case random(value):
		return leakRandom
	}
	return ""
}

// leakInText finds values that are secret under any name.
func leakInText(text string) leak {
	switch {
	case privateKey.MatchString(text), privateKey.MatchString(decoded(text)):
		return leakPrivateKey
	case knownToken.MatchString(text):
		return leakKnownToken
	case passwordURL.MatchString(text):
		return leakURL
	}
	return ""
}

var (
	privateKey = regexp.MustCompile(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)
	// knownToken: forms that their makers chose so that they can be found.
	knownToken = regexp.MustCompile(`\b(AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,}|` +
		`xox[abprs]-[A-Za-z0-9-]{10,}|[sr]k_live_[A-Za-z0-9]{20,}|hvs\.[A-Za-z0-9_-]{24,}|AIza[0-9A-Za-z_-]{35}|npm_[A-Za-z0-9]{36})\b`)
	// passwordURL is scheme://user:password@host. A password that begins with '$' is
	// filled in from elsewhere.
	passwordURL = regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s/:@"']*:[^\s/@$"'][^\s/@"']*@`)
)

// secretWords end the name of a secret; secretPairs do as two words.
var (
	secretWords = []string{"PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "SECRET", "SECRETS", "TOKEN", "TOKENS", "CREDENTIAL", "CREDENTIALS", "APIKEY"}
	secretPairs = []string{"API KEY", "ACCESS KEY", "PRIVATE KEY", "SECRET KEY", "SIGNING KEY", "ENCRYPTION KEY", "MASTER KEY"}
	// describingWords at the end of a name mean that the value describes a secret, or names content
	// by its digest.
	describingWords = []string{
		"FILE", "PATH", "DIR", "NAME", "ID", "URL", "URI", "ENDPOINT", "ADDR", "ADDRESS", "HOST", "PORT", "TTL", "SECONDS", "TIMEOUT", "LIFETIME",
		"LENGTH", "SIZE", "BYTES", "BITS", "TYPE", "FORMAT", "HEADER", "ISSUER", "AUDIENCE", "ENABLED", "DISABLED", "REQUIRED", "POLICY", "VERSION",
		"ALGORITHM", "ALG", "COUNT", "LIMIT", "METHOD", "MODE", "BACKEND", "PROVIDER", "PREFIX", "SHA256", "SHA1", "DIGEST", "HASH", "CHECKSUM",
		"COMMIT", "REVISION", "RELEASE", "FINGERPRINT", "CA", "CERT", "CERTIFICATE", "PUBKEY",
	}
)

func words(name string) []string {
	return strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

func describing(name string) bool {
	all := words(name)
	return len(all) > 0 && slices.Contains(describingWords, all[len(all)-1])
}

func secretName(name string) bool {
	all := words(name)
	for i, word := range all {
		for _, s := range secretWords {
			// PGPASSWORD and MYTOKEN too; TOKENIZER is none.
			if strings.HasSuffix(word, s) {
				return true
			}
		}
		if i > 0 && slices.Contains(secretPairs, all[i-1]+" "+word) {
			return true
		}
	}
	return false
}

// plural names count the tokens of language models: MAX_TOKENS = 128000.
func plural(name string) bool { return slices.Contains(words(name), "TOKENS") }

// harmless values reveal nothing under any name: an empty value, a switch, a small number, a
// location, or a placeholder.
func harmless(value string) bool {
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off", "none", "auto", "optional", "required":
		return true
	}
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, "$") || len(value) <= 4 && strings.IndexFunc(value, notDigit) < 0
}

func notDigit(r rune) bool { return !unicode.IsDigit(r) }

// Bounds of a random text: shorter texts are words, longer ones are files.
const (
	minRandom = 24
	maxRandom = 200
	// minEntropy in bits for each character. Base64 of 18 random bytes has about 4.2,
	// names and sentences of that length below 3.8.
	minEntropy = 4.0
	// minHexEntropy: hex digits have at most 4.
	minHexEntropy = 3.0
)

var (
	token = regexp.MustCompile(`^[A-Za-z0-9+/_=-]+$`)
	uuid  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// random reports one word that no person would write.
func random(value string) bool {
	if len(value) < minRandom || len(value) > maxRandom || !token.MatchString(value) || uuid.MatchString(value) {
		return false
	}
	if _, err := hex.DecodeString(value); err == nil {
		return len(value) >= 32 && entropy(value) >= minHexEntropy
	}
	classes := 0
	for _, in := range []func(rune) bool{unicode.IsUpper, unicode.IsLower, unicode.IsDigit} {
		if strings.IndexFunc(value, in) >= 0 {
			classes++
		}
	}
	return classes == 3 && entropy(value) >= minEntropy
}

// entropy is the Shannon entropy of the characters, in bits.
func entropy(text string) float64 {
	counts := map[rune]float64{}
	for _, r := range text {
		counts[r]++
	}
	n, out := float64(len(text)), 0.0
	for _, c := range counts {
		out -= c / n * math.Log2(c/n)
	}
	return out
}

// decoded returns the text that base64 in text encodes; "" when text is not base64.
func decoded(text string) string {
	text = strings.TrimSpace(text)
	if len(text) < 32 || len(text) > maxEnvBytes || !token.MatchString(text) {
		return ""
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(raw)
}
