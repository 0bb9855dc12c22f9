package attest

import (
	"bytes"
	"encoding/hex"

	"golang.org/x/crypto/sha3"
)

const mrConfigIDSize = 48

// checkMRConfigID checks MRCONFIGID, which the VMM fixes in hardware before the
// guest starts. Zero means that the VMM sets none. It can only confirm what the
// event log says, never replace it.
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
	default:
		return refuse(CodeUnsupportedVersion, "MRCONFIGID version %d, only 1 and 2 are supported", id[0])
	}
	if !bytes.Equal(id, want) {
		return refuse(CodeTDAttributesForbidden, "MRCONFIGID %x does not match the measured events", id)
	}
	return nil
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
