package group

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"strconv"
)

// revisionHexLen is the length of a Revision in hex digits: 128 bits (R3).
const revisionHexLen = 32

// Revision names what the spec's Slots are to run (R3): 32 hex digits of a SHA-256 over
// the group, since its name is measured in app-compose.json, everything else that is
// measured or changes behaviour, and the restart token. Env is taken
// in key order, hooks, checks and driver settings with their defaults filled in, so that
// writing a default out is no change. The compose text counts byte by byte, since it is
// measured byte by byte. Size, budgets and deadlines are not part of it.
func (s Spec) Revision() string {
	t := s.Template
	h := sha256.New()
	// A tag and a length before each part: no two contents share an encoding.
	put(h, "cadre/revision/v2")
	put(h, s.Name)
	put(h, t.Compose)
	put(h, strconv.Itoa(len(t.Env)))
	for _, name := range sortedKeys(t.Env) {
		put(h, name)
		put(h, t.Env[name])
	}
	put(h, t.InstanceType)
	put(h, t.OSImage)
	put(h, strconv.Itoa(t.DiskGB))
	put(h, s.RestartToken)
	// Plain data with fixed field order and sorted keys: it always encodes, and one way.
	conduct, _ := json.Marshal(s.Conduct())
	put(h, string(conduct))
	return hex.EncodeToString(h.Sum(nil))[:revisionHexLen]
}

// contentHexLen is the length of a Content in hex digits: 96 bits.
const contentHexLen = 24

// Content names what of a template is measured, as far as it is known before the
// platform is asked: the compose text and the OS image. Templates with the same one
// look the same to attestation, whatever else differs.
func Content(t Template) string {
	h := sha256.New()
	put(h, "cadre/content/v1")
	put(h, t.Compose)
	put(h, t.OSImage)
	return hex.EncodeToString(h.Sum(nil))[:contentHexLen]
}

func put(h hash.Hash, part string) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	_, _ = h.Write(size[:]) // a hash never fails to write
	_, _ = h.Write([]byte(part))
}
