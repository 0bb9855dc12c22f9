package attest

import (
	"slices"
	"strings"

	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// The names of the events that dstack emits while it boots.
const (
	eventPreparing   = "system-preparing"
	eventAppID       = "app-id"
	eventComposeHash = "compose-hash"
	eventInitScript  = "init-script-hash"
	eventGPUPolicy   = "gpu-policy-hash"
	eventGPU         = "gpu-attestation"
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
	// sizes are the payload lengths that are accepted; none means any up to most.
	sizes []int
	// most bounds a payload without sizes; 0 is maxBootPayload.
	most int
	// required: the event must be there. repeated: it may be there more than once.
	required, repeated bool
}

const (
	maxBootPayload = 1 << 10
	// maxGPUPayload bounds the output of NVIDIA's tools about the GPUs.
	maxGPUPayload = 64 << 10
	// maxInitScripts is dstack's bound.
	maxInitScripts = 5
)

// bootGrammar is the order in which dstack 0.5 and 0.6 boot. An event may be left out if it is not
// required. An event out of this order, a second time, or under another name is rejected. A later
// dstack with other events gets rows here, after a person has read their meaning.
var bootGrammar = []bootEvent{
	{name: eventPreparing, sizes: []int{0}, required: true},
	{name: eventAppID, sizes: []int{20}, required: true},
	{name: eventComposeHash, sizes: []int{32}, required: true},
	// From 0.6 on: the scripts that run before the containers, and the policy for GPUs, which is
	// measured without any GPU, too. checkCompose checks the hashed content.
	{name: eventInitScript, sizes: []int{32}, repeated: true},
	{name: eventGPUPolicy, sizes: []int{32}},
	// NVIDIA's statement about the GPUs is not verified.
	{name: eventGPU, most: maxGPUPayload},
	// Empty with no_instance_id; policy refuses that (ATT-33).
	{name: eventInstanceID, sizes: []int{0, 20}, required: true},
	{name: eventBootMRDone, sizes: []int{0}, required: true},
	// Once for each KMS that was tried; gone in 0.6.
	{name: eventMRKMS, sizes: []int{32}, repeated: true},
	{name: eventOSImageHash, sizes: []int{32}},
	{name: eventKeyProvider, required: true},
	{name: eventStorageFS},
	{name: eventReady, sizes: []int{0}, required: true},
}

// KeyProvider identifies the service that gives CVMs their keys.
type KeyProvider struct {
	// Name: "kms", "local-sgx", "tpm" or "none".
	Name string `json:"name"`
	// ID in lower-case hex: for "kms" the DER SubjectPublicKeyInfo of its root CA
	// key, for "local-sgx" the provider's MRENCLAVE.
	ID string `json:"id"`
}

// bootFacts are the facts from the events before system-ready.
type bootFacts struct {
	appID, composeHash, instanceID []byte
	// osImageHash is nil if there is no such event.
	osImageHash []byte
	keyProvider KeyProvider
	// initScripts and gpuPolicy are of a guest image 0.6; gpuPolicy is nil on an older one.
	initScripts [][]byte
	gpuPolicy   []byte
	// eventVersion is how the digests of the events are made.
	eventVersion int
}

// readBoot reads the identity from the events before the first system-ready. Software in the guest
// can emit events of any name later on, so readBoot rejects a boot name after it: no image emits
// one there, and a reader that takes the last one would be deceived (ATT-19).
func readBoot(events []event) (bootFacts, error) {
	var facts bootFacts
	next, ready := 0, false
	for _, ev := range events {
		if ev.imr != registers-1 {
			continue
		}
		facts.eventVersion = ev.version
		row := grammarRow(ev.name)
		if ready {
			if row >= 0 {
				return bootFacts{}, refuse(CodeEventLogAmbiguous, "boot event %q is emitted after %s", ev.name, eventReady)
			}
			continue
		}
		if row < 0 {
			return bootFacts{}, unknownEvent(ev.name)
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
	switch {
	case !ready:
		return bootFacts{}, refuse(CodeEventLogAmbiguous, "event log has no %s", eventReady)
	case len(facts.initScripts) > maxInitScripts:
		return bootFacts{}, refuse(CodeEventLogAmbiguous, "event log has %d %s, dstack runs at most %d", len(facts.initScripts), eventInitScript, maxInitScripts)
	case facts.gpuPolicy == nil && len(facts.initScripts) > 0:
		// Every known image writes both or neither, so the meaning of the other events is unknown.
		return bootFacts{}, refuse(CodeEventLogAmbiguous, "event log has %s without %s", eventInitScript, eventGPUPolicy)
	}
	return facts, nil
}

// unknownEvent rejects an event that no known image writes before the boundary. A name in other
// letter case could be mistaken for a known one by a careless reader.
func unknownEvent(name string) *Error {
	if slices.ContainsFunc(bootGrammar, func(row bootEvent) bool { return strings.EqualFold(row.name, name) }) {
		return refuse(CodeEventLogAmbiguous, "event %q is written in other letters", name)
	}
	if name == "rootfs-hash" { // of images up to 0.4
		return refuse(CodeUnsupportedVersion, "event %q is of an older guest image; guest images 0.5 and 0.6 are known", name)
	}
	return refuse(policy.CodeGuestImageNewer, "newer guest image than this Cadre knows: event %q before %s; guest images 0.5 and 0.6 are known", name, eventReady)
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
	most := row.most
	if most == 0 {
		most = maxBootPayload
	}
	fits := len(row.sizes) == 0 && len(payload) <= most
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
	case eventInitScript:
		f.initScripts = append(f.initScripts, payload)
	case eventGPUPolicy:
		f.gpuPolicy = payload
	case eventGPU:
		if f.gpuPolicy == nil {
			return refuse(CodeEventLogAmbiguous, "event %q without %q", row.name, eventGPUPolicy)
		}
	case eventOSImageHash:
		f.osImageHash = payload
	case eventKeyProvider:
		if err := strictjson.Unmarshal(payload, &f.keyProvider); err != nil {
			return refuse(CodeEventLogInvalid, "event %q: %v", row.name, err)
		}
		if f.keyProvider.Name == "" {
			return refuse(CodeEventLogInvalid, "event %q names no key provider", row.name)
		}
	}
	return nil
}
