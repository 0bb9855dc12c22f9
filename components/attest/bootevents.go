package attest

import (
	"cadre.dev/core/strictjson"
)

// The names of the events that dstack emits while it boots.
const (
	eventPreparing   = "system-preparing"
	eventAppID       = "app-id"
	eventComposeHash = "compose-hash"
	eventInstanceID  = "instance-id"
	eventBootMRDone  = "boot-mr-done"
	eventMRKMS       = "mr-kms"
	eventOSImageHash = "os-image-hash"
	eventKeyProvider = "key-provider"
	eventStorageFS   = "storage-fs"
	eventReady       = "system-ready"
)

// bootEvent is one row of the boot grammar.
type bootEvent struct {
	name string
	// sizes are the payload lengths that are accepted; none means any up to maxBootPayload.
	sizes []int
	// required: the event must be there. repeated: it may be there more than once.
	required, repeated bool
}

const maxBootPayload = 1 << 10

// bootGrammar is the order in which dstack 0.5 boots. An event may be left out
// if it is not required; none may come out of this order, twice, or under
// another name. A later dstack with other events gets rows here, after somebody
// has read what they mean.
var bootGrammar = []bootEvent{
	{name: eventPreparing, sizes: []int{0}, required: true},
	{name: eventAppID, sizes: []int{20}, required: true},
	{name: eventComposeHash, sizes: []int{32}, required: true},
	// Empty with no_instance_id; policy refuses that (ATT-33).
	{name: eventInstanceID, sizes: []int{0, 20}, required: true},
	{name: eventBootMRDone, sizes: []int{0}, required: true},
	// Once for each KMS that was tried.
	{name: eventMRKMS, sizes: []int{32}, repeated: true},
	{name: eventOSImageHash, sizes: []int{32}},
	{name: eventKeyProvider, required: true},
	{name: eventStorageFS},
	{name: eventReady, sizes: []int{0}, required: true},
}

// KeyProvider is who gives CVMs their keys.
type KeyProvider struct {
	// Name: "kms", "local-sgx", "tpm" or "none".
	Name string `json:"name"`
	// ID in lower-case hex: for "kms" the DER SubjectPublicKeyInfo of its root CA
	// key, for "local-sgx" the provider's MRENCLAVE.
	ID string `json:"id"`
}

// bootFacts is what the events before system-ready say.
type bootFacts struct {
	appID, composeHash, instanceID []byte
	// osImageHash is nil if there is no such event.
	osImageHash []byte
	keyProvider KeyProvider
}

// readBoot reads the identity from the events before the first system-ready.
// Software in the guest can emit events of any name later on, so a boot name
// after it is refused: nobody honest emits one, and a reader that takes the last
// one would be deceived (ATT-19).
func readBoot(events []event) (bootFacts, error) {
	var facts bootFacts
	next, ready := 0, false
	for _, ev := range events {
		if ev.imr != registers-1 {
			continue
		}
		row := grammarRow(ev.name)
		if ready {
			if row >= 0 {
				return bootFacts{}, refuse(CodeEventLogAmbiguous, "boot event %q is emitted after %s", ev.name, eventReady)
			}
			continue
		}
		if row < 0 {
			return bootFacts{}, refuse(CodeEventLogAmbiguous, "unknown event %q before %s", ev.name, eventReady)
		}
		// next is the first row that may still come; a repeatable row stays open.
		if row < next {
			return bootFacts{}, refuse(CodeEventLogAmbiguous, "event %q is emitted twice or out of order", ev.name)
		}
		for _, missed := range bootGrammar[next:row] {
			if missed.required {
				return bootFacts{}, refuse(CodeEventLogAmbiguous, "event %q comes before %q", ev.name, missed.name)
			}
		}
		next = row + 1
		if bootGrammar[row].repeated {
			next = row
		}
		if err := facts.take(bootGrammar[row], ev.payload); err != nil {
			return bootFacts{}, err
		}
		ready = ev.name == eventReady
	}
	if !ready {
		return bootFacts{}, refuse(CodeEventLogAmbiguous, "event log has no %s", eventReady)
	}
	return facts, nil
}

func grammarRow(name string) int {
	for i, row := range bootGrammar {
		if row.name == name {
			return i
		}
	}
	return -1
}

func (f *bootFacts) take(row bootEvent, payload []byte) error {
	fits := len(row.sizes) == 0 && len(payload) <= maxBootPayload
	for _, size := range row.sizes {
		fits = fits || len(payload) == size
	}
	if !fits {
		return refuse(CodeEventLogInvalid, "event %q has a payload of %d bytes", row.name, len(payload))
	}
	switch row.name {
	case eventAppID:
		f.appID = payload
	case eventComposeHash:
		f.composeHash = payload
	case eventInstanceID:
		f.instanceID = payload
	case eventOSImageHash:
		f.osImageHash = payload
	case eventKeyProvider:
		if err := strictjson.Unmarshal(payload, &f.keyProvider); err != nil {
			return refuse(CodeEventLogInvalid, "event %q: %v", row.name, err)
		}
		if f.keyProvider.Name == "" {
			return refuse(CodeEventLogInvalid, "event %q names nobody", row.name)
		}
	}
	return nil
}
