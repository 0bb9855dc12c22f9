package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"cadre.dev/attest/statement"
)

// A nonce is random(12) || expiry in Unix seconds(4) || MAC(16). Each holder of the key can check
// it without stored state, and it is valid for one exchange only.
const (
	nonceSize   = 32
	nonceRandom = 12
	nonceClear  = nonceRandom + 4
	nonceTTL    = statement.NonceLife
)

// errNonce: not from this cluster, not for this exchange, or too old.
var errNonce = errors.New("the nonce was not issued for this exchange or is too old")

// exchange is the exchange that a nonce is bound to.
type exchange struct {
	appID, instanceID string
	bootKey           []byte
	// channel is the TLS exporter of the connection.
	channel []byte
}

func issueNonce(key []byte, e exchange, now time.Time) ([]byte, time.Time, error) {
	nonce := make([]byte, nonceClear, nonceSize)
	if _, err := rand.Read(nonce[:nonceRandom]); err != nil {
		return nil, time.Time{}, fmt.Errorf("make nonce: %w", err)
	}
	expiry := now.Add(nonceTTL).Truncate(time.Second)
	binary.BigEndian.PutUint32(nonce[nonceRandom:], uint32(expiry.Unix()))
	return append(nonce, nonceMAC(key, nonce, e)...), expiry, nil
}

func checkNonce(key, nonce []byte, e exchange, now time.Time) (expiry time.Time, err error) {
	if len(nonce) != nonceSize {
		return time.Time{}, errNonce
	}
	if !hmac.Equal(nonce[nonceClear:], nonceMAC(key, nonce[:nonceClear], e)) {
		return time.Time{}, errNonce
	}
	expiry = time.Unix(int64(binary.BigEndian.Uint32(nonce[nonceRandom:nonceClear])), 0)
	if now.After(expiry) {
		return time.Time{}, errNonce
	}
	return expiry, nil
}

func nonceMAC(key, clear []byte, e exchange) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range [][]byte{[]byte("cadre/admission/nonce/v1"), clear, []byte(e.appID), []byte(e.instanceID), e.bootKey, e.channel} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	return mac.Sum(nil)[:nonceSize-nonceClear]
}
