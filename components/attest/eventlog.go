package attest

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

// Bounds of an event log. Real ones have about 40 entries and 20 KiB.
const (
	MaxEventLogSize = 1 << 20
	maxEvents       = 1024
	maxEventName    = 256
)

// runtimeEventType marks the events that dstack's software emits into RTMR3.
const runtimeEventType uint32 = 0x08000001

const registers = 4

// register is the value of one RTMR.
type register [sha512.Size384]byte

// event is one entry of the log.
type event struct {
	imr  int
	kind uint32
	name string
	// payload is nil for boot events (imr 0 to 2), where nothing is read from it.
	payload []byte
	// digest is the value that extended the register. For imr 3 it is recomputed from name and
	// payload, never taken from the log.
	digest register
	// version of the digest: 1, or 2 where the app asks for it (guest images 0.6).
	version int
}

// logEntry is the wire form.
type logEntry struct {
	IMR          *int    `json:"imr"`
	EventType    *uint32 `json:"event_type"`
	Digest       string  `json:"digest"`
	Event        string  `json:"event"`
	EventPayload string  `json:"event_payload"`
	Version      int     `json:"version"`
	// Preimage is the preimage of the digest, hex, in version 2.
	Preimage string `json:"preimage"`
}

// parseEventLog reads a log in either of the agents' styles: all runtime events with their digests
// (agents up to 0.5.5), or all without (from 0.5.6). A present digest must be right; a mixture of
// both styles is rejected.
func parseEventLog(text string) ([]event, error) {
	if len(text) > MaxEventLogSize {
		return nil, refuse(CodeTooLarge, "event log has %d bytes, the limit is %d", len(text), MaxEventLogSize)
	}
	var entries []logEntry
	if err := strictjson.Unmarshal([]byte(text), &entries); err != nil {
		return nil, refuse(CodeEventLogInvalid, "event log: %v", err)
	}
	if len(entries) > maxEvents {
		return nil, refuse(CodeTooLarge, "event log has %d entries, the limit is %d", len(entries), maxEvents)
	}
	events := make([]event, 0, len(entries))
	var withDigest, without, second int
	for i, entry := range entries {
		ev, err := entry.parse(i)
		if err != nil {
			return nil, err
		}
		if ev.imr == registers-1 {
			second += ev.version - 1
			if entry.Digest == "" {
				without++
			} else {
				withDigest++
			}
		}
		events = append(events, ev)
	}
	if withDigest > 0 && without > 0 {
		return nil, refuse(CodeEventLogAmbiguous, "event log mixes runtime events with (%d) and without (%d) digests", withDigest, without)
	}
	if second > 0 && second != withDigest+without {
		return nil, refuse(CodeEventLogAmbiguous, "event log mixes runtime events of versions 1 and 2")
	}
	return events, nil
}

func (e logEntry) parse(i int) (event, error) {
	if e.IMR == nil || *e.IMR < 0 || *e.IMR >= registers {
		return event{}, refuse(CodeEventLogInvalid, "event %d: imr is missing or not 0 to 3", i)
	}
	if e.EventType == nil {
		return event{}, refuse(CodeEventLogInvalid, "event %d: event_type is missing", i)
	}
	version := max(e.Version, 1)
	switch {
	case e.Version < 0 || version == 2 && *e.IMR < registers-1:
		return event{}, refuse(CodeEventLogInvalid, "event %d of register %d has version %d", i, *e.IMR, e.Version)
	case version > 2:
		return event{}, refuse(policy.CodeGuestImageNewer, "newer guest image than this Cadre knows: event %d has version %d, versions 1 and 2 are known", i, e.Version)
	}
	if len(e.Event) > maxEventName {
		return event{}, refuse(CodeTooLarge, "event %d: name has %d bytes, the limit is %d", i, len(e.Event), maxEventName)
	}
	ev := event{imr: *e.IMR, kind: *e.EventType, name: e.Event, version: version}
	given, err := hex.DecodeString(e.Digest)
	if err != nil || (len(given) != 0 && len(given) != len(ev.digest)) {
		return event{}, refuse(CodeEventLogInvalid, "event %d: digest is not %d bytes of hex", i, len(ev.digest))
	}
	if ev.imr < registers-1 {
		if len(given) == 0 {
			return event{}, refuse(CodeEventLogInvalid, "event %d: a boot event without digest", i)
		}
		if e.Preimage != "" {
			return event{}, refuse(CodeEventLogInvalid, "event %d: a boot event with a preimage", i)
		}
		copy(ev.digest[:], given)
		return ev, nil
	}
	// An odd type would be replayed by some readers and skipped by others.
	if ev.kind != runtimeEventType {
		return event{}, refuse(CodeEventLogInvalid, "event %d extends RTMR3 with type %#x, only %#x is accepted", i, ev.kind, runtimeEventType)
	}
	ev.payload, err = hex.DecodeString(e.EventPayload)
	if err != nil {
		return event{}, refuse(CodeEventLogInvalid, "event %d: payload is not hex", i)
	}
	preimage, err := runtimePreimage(version, ev.name, ev.payload)
	if err != nil {
		return event{}, refuse(CodeEventLogInvalid, "event %d: %v", i, err)
	}
	if e.Preimage != "" && !strings.EqualFold(e.Preimage, hex.EncodeToString(preimage)) {
		return event{}, refuse(CodeEventLogInvalid, "event %d (%q): the preimage does not belong to the payload", i, ev.name)
	}
	ev.digest = sha512.Sum384(preimage)
	if len(given) != 0 && !bytes.Equal(given, ev.digest[:]) {
		return event{}, refuse(CodeEventLogInvalid, "event %d (%q): the digest does not belong to the payload", i, ev.name)
	}
	return ev, nil
}

// runtimePreimage is the preimage of a runtime event's digest. Version 1 is LE32(type) ":" name ":"
// payload, version 2 the canonical JSON (RFC 8785) of name, payload in hex, and type. No text is
// one of each: they differ in the first byte.
func runtimePreimage(version int, name string, payload []byte) ([]byte, error) {
	if version == 2 {
		return appcompose.Encode(map[string]any{"name": name, "payload": hex.EncodeToString(payload), "type": int64(runtimeEventType)})
	}
	b := binary.LittleEndian.AppendUint32(nil, runtimeEventType)
	b = append(b, ':')
	b = append(b, name...)
	b = append(b, ':')
	return append(b, payload...), nil
}

// replay extends each register with its events, from zero. count is the number of events of each
// register.
func replay(events []event) (regs [registers]register, count [registers]int) {
	for _, ev := range events {
		r := &regs[ev.imr]
		*r = sha512.Sum384(append(r[:], ev.digest[:]...))
		count[ev.imr]++
	}
	return regs, count
}

// checkReplay compares the replay with the quoted registers. The log must explain RTMR3 in full.
// The other three count by their value, so a log without their events is accepted; if the log has
// their events, they must replay correctly.
func checkReplay(events []event, quoted [][]byte) error {
	regs, count := replay(events)
	if len(quoted) != registers {
		return refuse(CodeQuoteMalformed, "quote has %d RTMRs, not %d", len(quoted), registers)
	}
	for i, reg := range regs {
		if i < registers-1 && count[i] == 0 {
			continue
		}
		if want := quoted[i]; !bytes.Equal(reg[:], want) {
			return refuse(CodeEventLogInvalid, "event log replays to RTMR%d %x, the quote has %x", i, reg, want)
		}
	}
	return nil
}
