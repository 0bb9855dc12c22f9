package attest

import (
	"encoding/hex"
	"fmt"

	"cadre.dev/core/appcompose"
)

// IDs are the names that follow from a compose hash.
type IDs struct {
	ComposeHash string `json:"compose_hash"`
	// AppID is given, or the default one.
	AppID string `json:"app_id"`
	// MRConfigIDV1 and V2 are the possible values of a quote's MRCONFIGID, except zero.
	MRConfigIDV1 string `json:"mr_config_id_v1"`
	MRConfigIDV2 string `json:"mr_config_id_v2"`
}

// Identify derives the names for the bytes of an app-compose.json. appID, hex, "" for
// the default one.
func Identify(raw []byte, appID, provider, providerID string) (IDs, error) {
	out := IDs{ComposeHash: appcompose.Hash(raw)}
	if out.AppID = appID; appID == "" {
		out.AppID = appcompose.AppID(out.ComposeHash)
	}
	app, err := hex.DecodeString(out.AppID)
	if err != nil || len(app) != 20 {
		return out, fmt.Errorf("app id %q is not 40 hex digits", appID)
	}
	hash, err := hex.DecodeString(out.ComposeHash)
	if err != nil {
		return out, err
	}
	c := configID{composeHash: hash, appID: app, keyProvider: provider, keyProviderID: providerID}
	out.MRConfigIDV1 = c.v1()
	out.MRConfigIDV2, err = c.v2()
	return out, err
}

// configID is the preimage of MRCONFIGID.
type configID struct {
	// composeHash has 32 bytes, appID 20.
	composeHash, appID []byte
	// keyProvider is "none", "local", "kms" or "tpm", as app-compose.json has it.
	keyProvider string
	// keyProviderID is hex, may be empty.
	keyProviderID string
}

// v1 is the form of MRCONFIGID that binds the compose hash alone, as hex.
func (c configID) v1() string { return hex.EncodeToString(mrConfigIDV1(c.composeHash)) }

// v2 binds the app id and the key provider as well. It fails on a provider that
// has no number.
func (c configID) v2() (string, error) {
	name := c.keyProvider
	if name == "local" {
		name = "local-sgx" // the event log's name for it
	}
	kind, ok := keyProviderKinds[name]
	if !ok {
		return "", fmt.Errorf("key provider %q has no number in MRCONFIGID: use none, local, kms or tpm", c.keyProvider)
	}
	provider, err := hex.DecodeString(c.keyProviderID)
	if err != nil {
		return "", fmt.Errorf("key provider id %q is not hex", c.keyProviderID)
	}
	return hex.EncodeToString(mrConfigIDV2(c.composeHash, c.appID, kind, provider)), nil
}
