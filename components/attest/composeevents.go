package attest

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"cadre.dev/core/appcompose"
)

// checkCompose checks that raw is the measured app-compose.json, and that the other events that a
// guest image derives from it match. An image 0.5 makes none.
func checkCompose(boot bootFacts, raw []byte) error {
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], boot.composeHash) {
		return refuse(CodeEventLogInvalid, "app-compose.json hashes to %x, the measured compose hash is %x", sum, boot.composeHash)
	}
	want, err := appcompose.ReadMeasured(raw)
	if err != nil {
		if boot.gpuPolicy == nil && boot.eventVersion == 1 {
			return nil // no event is made from the document; the closed list reports its fault
		}
		return refuse(CodeEventLogInvalid, "app-compose.json: %v", err)
	}
	if want.EventLogVersion != boot.eventVersion {
		return refuse(CodeEventLogInvalid, "the events have version %d, app-compose.json asks for version %d", boot.eventVersion, want.EventLogVersion)
	}
	if boot.gpuPolicy == nil {
		return nil
	}
	if !bytes.Equal(boot.gpuPolicy, want.GPUPolicy[:]) {
		return refuse(CodeEventLogInvalid, "event %q is %x, requirements.gpu_policy of app-compose.json hashes to %x", eventGPUPolicy, boot.gpuPolicy, want.GPUPolicy)
	}
	if !slices.EqualFunc(boot.initScripts, want.InitScripts, func(a []byte, b [32]byte) bool { return bytes.Equal(a, b[:]) }) {
		return refuse(CodeEventLogInvalid, "the %d events %q are not the digests of the %d init scripts of app-compose.json", len(boot.initScripts), eventInitScript, len(want.InitScripts))
	}
	return nil
}
