package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
)

// BootID names the Boot that holds the key of cert: the lower-case hex SHA-256
// of its SubjectPublicKeyInfo.
func BootID(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}
