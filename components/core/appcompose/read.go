package appcompose

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxSize is dstack's limit for app-compose.json, in bytes.
const MaxSize = 256 << 10

// Hash is the compose hash of raw: lower-case hex SHA-256 of exactly these bytes.
func Hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// AppID is the app id that dstack derives from a compose hash when none is given.
func AppID(composeHash string) string { return composeHash[:40] }

// Document has the values of an app-compose.json that tools need.
type Document struct {
	Name              string   `json:"name"`
	Runner            string   `json:"runner"`
	DockerComposeFile string   `json:"docker_compose_file"`
	AllowedEnvs       []string `json:"allowed_envs"`
	KMSEnabled        bool     `json:"kms_enabled"`
	LocalKeyProvider  bool     `json:"local_key_provider_enabled"`
	KeyProvider       string   `json:"key_provider"`
	KeyProviderID     string   `json:"key_provider_id"`
}

var bom = []byte("\xef\xbb\xbf")

// Read decodes the document. It rejects a text that is no JSON object, with a way out for the most
// likely mistake, a docker compose file.
func Read(raw []byte) (Document, error) {
	var d Document
	switch text := bytes.TrimSpace(bytes.TrimPrefix(raw, bom)); {
	case len(raw) > MaxSize:
		return d, fmt.Errorf("has %d bytes, dstack takes at most %d", len(raw), MaxSize)
	case len(text) == 0:
		return d, errors.New("is empty")
	case text[0] != '{':
		return d, errors.New("is not app-compose.json: not a JSON object. The hash is that of app-compose.json, not of the docker compose file in it")
	default:
		if err := json.Unmarshal(text, &d); err != nil {
			return d, fmt.Errorf("is not app-compose.json: %w", err)
		}
	}
	return d, nil
}

// Looks reports that raw is meant as app-compose.json and not as a compose file.
func Looks(raw []byte) bool {
	text := bytes.TrimSpace(bytes.TrimPrefix(raw, bom))
	return len(text) > 0 && text[0] == '{' && bytes.Contains(text, []byte(`"docker_compose_file"`))
}

// Provider is the key provider that dstack derives from the settings.
func (d Document) Provider() string {
	switch {
	case d.KeyProvider != "":
		return d.KeyProvider
	case d.KMSEnabled:
		return "kms"
	case d.LocalKeyProvider:
		return "local"
	}
	return "none"
}

// Oddities are properties of the bytes that editors and transfers add and that
// change the hash.
func Oddities(raw []byte) []string {
	var out []string
	if bytes.HasPrefix(raw, bom) {
		out = append(out, "begins with a byte order mark, which is hashed too: save without it")
	}
	if bytes.HasSuffix(raw, []byte("\n")) {
		out = append(out, "ends with a newline, which is hashed too: editors add a newline that was never delivered")
	}
	if bytes.Contains(raw, []byte("\r\n")) {
		out = append(out, "has Windows newlines (CR LF), which are hashed too: was the file changed in transfer?")
	}
	if strings.Contains(string(raw), `\u0026`) || strings.Contains(string(raw), `\u003c`) || strings.Contains(string(raw), `\u003e`) {
		out = append(out, `has \u0026, \u003c or \u003e: Go's encoder writes & < > so, no other writer does`)
	}
	return out
}

// Fieldset is the document of raw with numbers kept as they are written.
func Fieldset(raw []byte) (map[string]any, error) {
	if _, err := Read(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, bom)))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("is not app-compose.json: %w", err)
	}
	return doc, nil
}
