package group

import (
	"crypto/sha256"
	"encoding/hex"
)

// NodeID is the ID, a UUID, that the Consul agent of a Slot bears in a cluster. It
// follows from the names, so that whoever bears another one is known for it, and a Slot
// that lost its disk comes back as who it was.
func NodeID(cluster, slot string) string {
	sum := sha256.Sum256([]byte("cadre/v1/node-id\x00" + cluster + "\x00" + slot))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // RFC 9562, version 8
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
