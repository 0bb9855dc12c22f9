package attestsim

import (
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// runtimeEvent is the type of the events that go to RTMR3.
const runtimeEvent uint32 = 0x08000001

// event is one measurement.
type event struct {
	IMR     int
	Type    uint32
	Name    string
	Payload []byte
	Digest  [48]byte
}

func newRuntimeEvent(name string, payload []byte) event {
	b := binary.LittleEndian.AppendUint32(nil, runtimeEvent)
	b = fmt.Appendf(b, ":%s:", name)
	return event{IMR: 3, Type: runtimeEvent, Name: name, Payload: payload, Digest: sha512.Sum384(append(b, payload...))}
}

// wireEvent is an event as the agent shows it.
type wireEvent struct {
	IMR          int    `json:"imr"`
	EventType    uint32 `json:"event_type"`
	Digest       string `json:"digest"`
	Event        string `json:"event"`
	EventPayload string `json:"event_payload"`
}

func (e event) wire() wireEvent {
	return wireEvent{
		IMR: e.IMR, EventType: e.Type, Event: e.Name,
		Digest: hex.EncodeToString(e.Digest[:]), EventPayload: hex.EncodeToString(e.Payload),
	}
}

// stripped is the style of agents from 0.5.6 in GetQuote: boot events keep only
// the digest, runtime events only the payload.
func (e event) stripped() wireEvent {
	w := e.wire()
	if e.IMR == 3 {
		w.Digest = ""
	} else {
		w.EventPayload = ""
	}
	return w
}

func logText(events []event, style func(event) wireEvent) (string, error) {
	list := make([]wireEvent, 0, len(events))
	for _, e := range events {
		list = append(list, style(e))
	}
	text, err := json.Marshal(list)
	return string(text), err
}
