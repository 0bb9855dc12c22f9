package osimage

import (
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
)

// digest is one event of a boot log.
type digest = [sha512.Size384]byte

// ACPI are the digests of the tables that QEMU makes for a VM, in the order of the boot log: loader script, root
// pointer, tables.
type ACPI [3]digest

// replay is the register after these events.
func replay(events ...digest) string {
	var register digest
	for _, e := range events {
		register = sha512.Sum384(append(register[:], e[:]...))
	}
	return hex.EncodeToString(register[:])
}

// fixed are events that are the same with each firmware of dstack so far (OVMF before 202505).
var (
	separator      = sha512.Sum384(make([]byte, 4))
	variableStore  = known48("344bc51c980ba621aaa00da3ed7436f7d6e549197dfe699515dfa2c6583d95e6412af21c097d473155875ffd561d6790")
	bootOrder      = sha512.Sum384(make([]byte, 2))
	bootOption     = known48("23ada07f5261f12f34a0bd8e46760962d6b4d576a416f1fea1c64bc656b1d28eacf7047ae6e967c58fd2a98bfa74c298")
	globalVariable = guid(0x8be4df61, 0x93ca, 0x11d2, "\xaa\x0d\x00\xe0\x98\x03\x2b\x8c")
	imageSecurity  = guid(0xd719b2cb, 0x3d3a, 0x4596, "\xa3\xbc\xda\xd0\x0e\x67\x65\x6f")
)

func known48(text string) (d digest) {
	if n, err := hex.Decode(d[:], []byte(text)); err != nil || n != len(d) {
		panic("a digest in the source is not 48 bytes of hex")
	}
	return d
}

// variable is the event of an EFI variable that is not set.
func variable(vendor []byte, name string) digest {
	data := append([]byte{}, vendor...)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(name)))
	data = binary.LittleEndian.AppendUint64(data, 0)
	return sha512.Sum384(append(data, utf16LE(name)...))
}

func utf16LE(text string) (out []byte) {
	for _, c := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, c)
	}
	return out
}

func rtmr0(hob []byte, tables ACPI) string {
	return replay(sha512.Sum384(hob), variableStore,
		variable(globalVariable, "SecureBoot"), variable(globalVariable, "PK"), variable(globalVariable, "KEK"),
		variable(imageSecurity, "db"), variable(imageSecurity, "dbx"), separator,
		tables[0], tables[1], tables[2], bootOrder, bootOption)
}

func rtmr1(kernel digest) string {
	said := func(text string) digest { return sha512.Sum384([]byte(text)) }
	return replay(kernel, said("Calling EFI Application from Boot Option"), separator,
		said("Exit Boot Services Invocation"), said("Exit Boot Services Returned with Success"))
}

// commandLine is the event of the kernel's command line, to which the firmware adds the initrd.
func commandLine(text string) digest {
	return sha512.Sum384(append(utf16LE(text+" initrd=initrd"), 0, 0))
}

func rtmr2(line, initrd digest) string { return replay(line, initrd) }

// maxEvidence bounds a guest agent's answer.
const maxEvidence = 4 << 20

// Evidence is the shape of a VM in its guest agent's answer to GetQuote. Its host can forge it.
type Evidence struct {
	QEMU       string `json:"qemu_version"`
	Memory     uint64 `json:"memory_size"`
	SinglePass *bool  `json:"qemu_single_pass_add_pages"`
	Tables     ACPI   `json:"-"`
}

// ReadEvidence reads a GetQuote answer.
func ReadEvidence(raw []byte) (Evidence, error) {
	var e Evidence
	if len(raw) > maxEvidence {
		return e, fmt.Errorf("it has more than %d bytes", maxEvidence)
	}
	var answer struct {
		Log    string `json:"event_log"`
		Config string `json:"vm_config"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Log == "" {
		return e, errors.New("it is no answer of a guest agent to GetQuote: event_log is missing")
	}
	if answer.Config != "" {
		if err := json.Unmarshal([]byte(answer.Config), &e); err != nil {
			return e, fmt.Errorf("vm_config: %w", err)
		}
	}
	var log []struct {
		IMR    int    `json:"imr"`
		Type   uint32 `json:"event_type"`
		Digest string `json:"digest"`
	}
	if err := json.Unmarshal([]byte(answer.Log), &log); err != nil {
		return e, fmt.Errorf("event_log: %w", err)
	}
	const platformConfig = 10 // EV_PLATFORM_CONFIG_FLAGS: data of ACPI, and nothing else in register 0
	found := 0
	for _, one := range log {
		if one.IMR != 0 || one.Type != platformConfig {
			continue
		}
		if found == len(e.Tables) {
			return e, errors.New("event_log: it has more than three events of ACPI data")
		}
		if n, err := hex.Decode(e.Tables[found][:], []byte(one.Digest[:min(len(one.Digest), 2*len(e.Tables[0]))])); err != nil || n != len(e.Tables[0]) {
			return e, errors.New("event_log: the digest of an event of ACPI data is not 48 bytes of hex")
		}
		found++
	}
	if found != len(e.Tables) {
		return e, fmt.Errorf("event_log: it has %d events of ACPI data, want 3", found)
	}
	return e, nil
}
