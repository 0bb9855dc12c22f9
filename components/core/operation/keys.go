package operation

import (
	"encoding/json"
	"strings"
)

// keysRefused begins the reason of a boot to which the key service gave no keys.
const keysRefused = "KMS_REFUSED: the key service gave no keys to the boot: "

// asksForKeys is in each boot error of a dstack guest whose request for its keys failed, and keyRefusals
// are the words of dstack-kms for its decisions (main_service.rs of dstack 0.5 and 0.6): about the boot,
// and about the key service itself.
const asksForKeys = "Failed to get app key"

// AsksForKeys reports whether a boot error is about the keys of the boot. The key service decides about them, not the
// content of the CVM.
func AsksForKeys(bootError string) bool { return strings.Contains(bootError, asksForKeys) }

var keyRefusals = []string{"Boot denied: ", "KMS is not allowed: "}

// KeysRefused reports whether a boot error says that the key service refused the keys, with its reason.
// A key service that does not answer refuses nothing.
func KeysRefused(bootError string) (reason string, refused bool) {
	if !strings.Contains(bootError, asksForKeys) {
		return "", false
	}
	// The client of the guest quotes the answer of the key service, which is JSON with an error.
	if _, answer, quoted := strings.Cut(bootError, "error={"); quoted {
		var said struct {
			Error string `json:"error"`
		}
		if json.NewDecoder(strings.NewReader("{"+answer)).Decode(&said) == nil {
			bootError = said.Error
		}
	}
	for _, words := range keyRefusals {
		if _, after, found := strings.Cut(bootError, words); found {
			return strings.TrimSpace(after), true
		}
	}
	return "", false
}

// notDecided are the words of `cadre kms-auth` for a boot about which no coordinator answered.
const notDecided = "the coordinators did not decide"

// keysUndecided reports a boot that got no keys because no coordinator answered about it. A later boot may get them, so
// it is no proof that the content cannot work.
func keysUndecided(bootError string) bool {
	reason, refused := KeysRefused(bootError)
	return refused && strings.Contains(reason, notDecided)
}

// bootReason is the reason of an Operation whose boot failed.
func bootReason(bootError string) string {
	if reason, refused := KeysRefused(bootError); refused {
		return keysRefused + reason
	}
	return "the CVM does not boot: " + bootError
}
