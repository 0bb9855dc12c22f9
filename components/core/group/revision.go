package group

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// revisionHexLen is the length of a Revision in hex digits: 128 bits (R3).
const revisionHexLen = 32

// Revision is the digest of the content that the spec's Slots run (R3): 32 hex digits of a SHA-256
// over the group, since its name is measured in app-compose.json, every other field that is
// measured or changes behaviour, and the restart token. Env is taken in key order, hooks, checks
// and driver settings with their defaults filled in, so that a written default is no change. The
// compose text counts byte by byte, since it is measured byte by byte. Size, budgets and deadlines
// are not part of it.
func (s Spec) Revision() string {
	t := s.Template
	parts := []string{"cadre/revision/v2", s.Name, t.Compose, strconv.Itoa(len(t.Env))}
	for _, name := range sortedKeys(t.Env) {
		parts = append(parts, name, t.Env[name])
	}
	// Plain data with fixed field order and sorted keys: it always encodes, and one way.
	agentSpec, _ := json.Marshal(s.AgentSpec())
	parts = append(parts, t.InstanceType, t.OSImage, strconv.Itoa(t.DiskGB), s.RestartToken, string(agentSpec))
	return sumOf(revisionHexLen, parts...)
}

// contentHexLen is the length of a Content in hex digits: 96 bits.
const contentHexLen = 24

// Content is a digest of the measured parts of a template that are known before the platform
// answers: the compose text and the OS image. Attestation cannot distinguish templates with the
// same Content.
func Content(t Template) string {
	return sumOf(contentHexLen, "cadre/content/v1", t.Compose, t.OSImage)
}

// sumOf is the beginning, of so many hex digits, of the SHA-256 of the parts, with a length
// before each: no two contents share an encoding. The first part is a tag.
func sumOf(digits int, parts ...string) string {
	size := 0
	for _, part := range parts {
		size += 8 + len(part)
	}
	text := make([]byte, 0, size)
	for _, part := range parts {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digits]
}
