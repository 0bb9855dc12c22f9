package attest

import (
	"encoding/hex"
	"fmt"
)

// CheckAppCompose returns the docker compose text of app-compose.json and why
// admission would refuse the document, "" if it would not. allowedScripts are the
// SHA-256 digests, lower-case hex, of the pre-launch scripts that may stand in it.
func CheckAppCompose(raw []byte, allowedScripts []string) (composeText, problem string) {
	return readAppCompose(raw, allowedScripts)
}

// ConfigID is what MRCONFIGID is made from.
type ConfigID struct {
	// ComposeHash has 32 bytes, AppID 20.
	ComposeHash, AppID []byte
	// KeyProvider is "none", "local", "kms" or "tpm", as app-compose.json has it.
	KeyProvider string
	// KeyProviderID is hex, may be empty.
	KeyProviderID string
}

// V1 is the form of MRCONFIGID that binds the compose hash alone, as hex.
func (c ConfigID) V1() string { return hex.EncodeToString(mrConfigIDV1(c.ComposeHash)) }

// V2 binds the app id and the key provider as well. It fails on a provider that
// has no number.
func (c ConfigID) V2() (string, error) {
	name := c.KeyProvider
	if name == "local" {
		name = "local-sgx" // the event log's word for it
	}
	kind, ok := keyProviderKinds[name]
	if !ok {
		return "", fmt.Errorf("key provider %q has no number in MRCONFIGID: use none, local, kms or tpm", c.KeyProvider)
	}
	provider, err := hex.DecodeString(c.KeyProviderID)
	if err != nil {
		return "", fmt.Errorf("key provider id %q is not hex", c.KeyProviderID)
	}
	return hex.EncodeToString(mrConfigIDV2(c.ComposeHash, c.AppID, kind, provider)), nil
}
