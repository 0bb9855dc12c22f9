package signal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// PathKey derives the key that authenticates the probes of a search's paths
// from both sides' shares. controlling is the share of the side that opened the
// search; both sides must pass the two in this order.
func PathKey(controlling, controlled []byte, search string) ([32]byte, error) {
	var key [32]byte
	if len(controlling) != KeyLen || len(controlled) != KeyLen {
		return key, fmt.Errorf("path key from shares of %d and %d bytes, want %d each", len(controlling), len(controlled), KeyLen)
	}
	secret := append(append(make([]byte, 0, 2*KeyLen), controlling...), controlled...)
	out, err := hkdf.Key(sha256.New, secret, nil, "cadre-path-v1 "+search, len(key))
	if err != nil {
		return key, fmt.Errorf("derive path key: %w", err)
	}
	copy(key[:], out)
	return key, nil
}
