package kafka

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// UUID is the Kafka UUID that belongs to a text: each founder computes the same ids of the cluster and of the
// founders' directories.
func UUID(text string) string {
	for sum := sha256.Sum256([]byte("cadre kafka " + text)); ; sum = sha256.Sum256(sum[:]) {
		id := [16]byte(sum[:16])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4: never one of Kafka's reserved ids
		if out := uuidText(id); out[0] != '-' {         // which would be read as a flag
			return out
		}
	}
}

func uuidText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func parseUUID(text string) (id [16]byte, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("%q is no UUID of Kafka", text)
	}
	return [16]byte(raw), nil
}
