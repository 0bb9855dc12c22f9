package attest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/crypto/sha3"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

const mrConfigIDSize = 48

// checkMRConfigID checks MRCONFIGID, which the VMM fixes in hardware before the guest starts. Zero
// means that the VMM sets none. It can only confirm the event log, never replace it.
func checkMRConfigID(id []byte, boot bootFacts) error {
	if isZero(id) {
		return nil
	}
	var want []byte
	switch id[0] {
	case 1:
		want = mrConfigIDV1(boot.composeHash)
	case 2:
		kind, ok := keyProviderKinds[boot.keyProvider.Name]
		if !ok {
			return refuse(CodeTDAttributesForbidden, "MRCONFIGID: key provider %q has no kind", boot.keyProvider.Name)
		}
		provider, err := hex.DecodeString(boot.keyProvider.ID)
		if err != nil {
			return refuse(CodeTDAttributesForbidden, "MRCONFIGID: key provider id is not hex")
		}
		want = mrConfigIDV2(boot.composeHash, boot.appID, kind, provider)
	case 3:
		return checkMRConfigIDV3(id, boot)
	case 0:
		return refuse(CodeUnsupportedVersion, "MRCONFIGID has version 0 and is not zero")
	default:
		return refuse(policy.CodeGuestImageNewer, "newer guest image than this Cadre knows: MRCONFIGID has version %d, versions 1 to 3 are known", id[0])
	}
	if !bytes.Equal(id, want) {
		return refuse(CodeTDAttributesForbidden, "MRCONFIGID %x does not match the measured events", id)
	}
	return nil
}

// mrConfigIDV3Domain separates the digest of a document of version 3 from others.
const mrConfigIDV3Domain = "dstack-mr-config-v3:\x00"

// checkMRConfigIDV3 compares with the documents that the VMM of dstack 0.6 may have written about
// the measured events. Two members depend on facts without an event: the GPU policy is there with
// GPUs, the init scripts from manifest version 3 on.
func checkMRConfigIDV3(id []byte, boot bootFacts) error {
	for _, gpu := range []bool{false, true} {
		for _, scripts := range []bool{false, true} {
			want, err := mrConfigIDV3(boot, gpu, scripts)
			if err != nil {
				return err
			}
			if bytes.Equal(id, want) {
				return nil
			}
		}
	}
	return refuse(CodeTDAttributesForbidden, "MRCONFIGID %x does not match the measured events", id)
}

func mrConfigIDV3(boot bootFacts, gpu, scripts bool) ([]byte, error) {
	provider := boot.keyProvider.Name
	if provider == "local-sgx" {
		provider = "local" // the document's name for it
	}
	doc := map[string]any{
		"version": 3, "app_id": hex.EncodeToString(boot.appID), "compose_hash": hex.EncodeToString(boot.composeHash), "key_provider": provider,
	}
	if id := strings.ToLower(boot.keyProvider.ID); id != "" {
		doc["key_provider_id"] = id
	}
	if len(boot.instanceID) > 0 {
		doc["instance_id"] = hex.EncodeToString(boot.instanceID)
	}
	if gpu {
		doc["gpu_policy_hash"] = hex.EncodeToString(boot.gpuPolicy)
	}
	if scripts {
		hashes := make([]string, len(boot.initScripts))
		for i, h := range boot.initScripts {
			hashes[i] = hex.EncodeToString(h)
		}
		doc["init_script_hashes"] = hashes
	}
	text, err := appcompose.Encode(doc)
	if err != nil {
		return nil, refuse(CodeTDAttributesForbidden, "MRCONFIGID: %v", err)
	}
	sum := sha256.Sum256(append([]byte(mrConfigIDV3Domain), text...))
	id := make([]byte, mrConfigIDSize)
	id[0] = 3
	copy(id[1:33], sum[:])
	return id, nil
}

// keyProviderKinds are the numbers that MRCONFIGID version 2 has for the names
// of the key-provider event.
var keyProviderKinds = map[string]byte{"none": 0, "local-sgx": 1, "kms": 2, "tpm": 3}

func mrConfigIDV1(composeHash []byte) []byte {
	id := make([]byte, mrConfigIDSize)
	id[0] = 1
	copy(id[1:33], composeHash)
	return id
}

func mrConfigIDV2(composeHash, appID []byte, kind byte, providerID []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(composeHash)
	h.Write(appID)
	h.Write([]byte{kind})
	h.Write(providerID)
	id := make([]byte, mrConfigIDSize)
	id[0] = 2
	copy(id[1:33], h.Sum(nil))
	return id
}
