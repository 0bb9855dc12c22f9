package attest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/policy"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRuntimeDigestVectors(t *testing.T) {
	for name, want := range map[string]string{
		eventPreparing: "f9974020ef507068183313d0ca808e0d1ca9b2d1ad0c61f5784e7157c362c06536f5ddacdad4451693f48fcc72fff624",
		eventReady:     "1a76b2a80a0be71eae59f80945d876351a7a3fb8e9fd1ff1cede5734aa84ea11fd72b4edfbb6f04e5a85edd114c751bd",
	} {
		if got := runtime(name, nil).digest; hex.EncodeToString(got[:]) != want {
			t.Errorf("%s: %x", name, got)
		}
	}
}

func TestReplayVector(t *testing.T) {
	events := []event{
		runtime(eventPreparing, nil), runtime(eventAppID, bytes.Repeat([]byte{1}, 20)),
		runtime(eventComposeHash, bytes.Repeat([]byte{2}, 32)), runtime(eventInstanceID, bytes.Repeat([]byte{3}, 20)),
		runtime(eventBootMRDone, nil), runtime(eventMRKMS, bytes.Repeat([]byte{4}, 32)),
		runtime(eventOSImageHash, bytes.Repeat([]byte{5}, 32)), runtime(eventKeyProvider, []byte(`{"name":"kms","id":"00"}`)),
		runtime(eventStorageFS, []byte("zfs")), runtime(eventReady, nil),
	}
	regs, _ := replay(events)
	if got := hex.EncodeToString(regs[3][:]); got != "1cf4bd3b7f05e7219db6cd763a4a6cd267043919698104110f5bca887fcfba044ffa7b28061eb97ef90d630c0ad09ba8" {
		t.Errorf("RTMR3 %s", got)
	}
}

// TestATT18_EverySingleEditOfALogIsRefused edits logs of both styles and of real
// hardware in every single place.
func TestATT18_EverySingleEditOfALogIsRefused(t *testing.T) {
	withDigests, stripped := newFake(t), newFake(t)
	stripped.stripped = true
	for _, c := range []struct {
		name string
		v    *Verifier
		ev   Evidence
		data [64]byte
	}{
		{"with digests", withDigests.verifier(t), withDigests.evidence(t), [64]byte{}},
		{"stripped", stripped.verifier(t), stripped.evidence(t), [64]byte{}},
		{"real hardware", realVerifier(t), realEvidence(t), realReportData()},
	} {
		var entries []map[string]any
		if err := json.Unmarshal([]byte(c.ev.EventLog), &entries); err != nil {
			t.Fatal(err)
		}
		tried := 0
		refused := func(what string, i int, edited []map[string]any) {
			t.Helper()
			text, err := json.Marshal(edited)
			if err != nil {
				t.Fatal(err)
			}
			ev := c.ev
			ev.EventLog = string(text)
			tried++
			if _, err := c.v.Verify(context.Background(), ev, c.data); codeOf(err) == "" {
				t.Errorf("%s: %s at event %d: accepted", c.name, what, i)
			}
		}
		for i, entry := range entries {
			refused("dropped", i, slices.Delete(slices.Clone(entries), i, i+1))
			refused("doubled", i, slices.Insert(slices.Clone(entries), i, entry))
			if i > 0 && entry["imr"] == entries[i-1]["imr"] {
				swapped := slices.Clone(entries)
				swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
				refused("swapped", i, swapped)
			}
			for _, key := range []string{"digest", "event_payload", "event"} {
				// The payload and name of a boot event explain nothing and are not read.
				if key != "digest" && entry["imr"] != 3.0 {
					continue
				}
				text := entry[key].(string)
				for _, changed := range []string{flipLast(text), text + "00"} {
					if changed == text {
						continue
					}
					edited := slices.Clone(entries)
					edited[i] = map[string]any{}
					for k, v := range entry {
						edited[i][k] = v
					}
					edited[i][key] = changed
					refused(key+" changed", i, edited)
				}
			}
			edited := slices.Clone(entries)
			edited[i] = map[string]any{}
			for k, v := range entry {
				edited[i][k] = v
			}
			edited[i]["imr"] = (int(entry["imr"].(float64)) + 1) % 4
			refused("moved to the next register", i, edited)
		}
		refused("all dropped", 0, []map[string]any{})
		t.Logf("%s: %d edits", c.name, tried)
	}
}

// flipLast changes one bit of the last hex digit.
func flipLast(s string) string {
	if s == "" {
		return s
	}
	last := s[len(s)-1]
	if last == '0' {
		return s[:len(s)-1] + "1"
	}
	return s[:len(s)-1] + "0"
}

func TestATT18_MalformedLogsAreRefused(t *testing.T) {
	entry := `{"imr":3,"event_type":134217729,"digest":"","event":"x","event_payload":""}`
	for _, c := range []struct {
		name, text string
		want       policy.Code
	}{
		{"not JSON", `[`, CodeEventLogInvalid},
		{"not a list", `{}`, CodeEventLogInvalid},
		{"trailing text", `[] []`, CodeEventLogInvalid},
		{"null entry", `[null]`, CodeEventLogInvalid},
		{"unknown key", strings.Replace(`[`+entry+`]`, `"imr"`, `"extra":1,"imr"`, 1), CodeEventLogInvalid},
		{"doubled key (ATT-24)", strings.Replace(`[`+entry+`]`, `"imr"`, `"event":"y","imr"`, 1), CodeEventLogInvalid},
		{"folded key (ATT-24)", strings.Replace(`[`+entry+`]`, `"imr"`, `"IMR"`, 1), CodeEventLogInvalid},
		{"no imr", strings.Replace(`[`+entry+`]`, `"imr":3,`, ``, 1), CodeEventLogInvalid},
		{"imr 4", strings.Replace(`[`+entry+`]`, `"imr":3`, `"imr":4`, 1), CodeEventLogInvalid},
		{"negative imr", strings.Replace(`[`+entry+`]`, `"imr":3`, `"imr":-1`, 1), CodeEventLogInvalid},
		{"fraction", strings.Replace(`[`+entry+`]`, `"imr":3`, `"imr":3.5`, 1), CodeEventLogInvalid},
		{"odd type in RTMR3", strings.Replace(`[`+entry+`]`, `134217729`, `134217730`, 1), CodeEventLogInvalid},
		{"0x payload", strings.Replace(`[`+entry+`]`, `"event_payload":""`, `"event_payload":"0x00"`, 1), CodeEventLogInvalid},
		{"short digest", strings.Replace(`[`+entry+`]`, `"digest":""`, `"digest":"00"`, 1), CodeEventLogInvalid},
		{"boot event without digest", strings.Replace(`[`+entry+`]`, `"imr":3`, `"imr":0`, 1), CodeEventLogInvalid},
		{"version 3", strings.Replace(`[`+entry+`]`, `"imr"`, `"version":3,"imr"`, 1), policy.CodeGuestImageNewer},
		{"version -1", strings.Replace(`[`+entry+`]`, `"imr"`, `"version":-1,"imr"`, 1), CodeEventLogInvalid},
		{"version 2 of a boot event", `[{"imr":0,"event_type":1,"digest":"` + strings.Repeat("00", 48) + `","event":"","event_payload":"","version":2}]`, CodeEventLogInvalid},
		{"another preimage", strings.Replace(`[`+entry+`]`, `"imr"`, `"preimage":"00","imr"`, 1), CodeEventLogInvalid},
		{"a preimage of a boot event", `[{"imr":0,"event_type":1,"digest":"` + strings.Repeat("00", 48) + `","event":"","event_payload":"","preimage":"00"}]`, CodeEventLogInvalid},
		{"long name", strings.Replace(`[`+entry+`]`, `"x"`, `"`+strings.Repeat("x", 300)+`"`, 1), CodeTooLarge},
		{"too many entries", `[` + strings.Repeat(entry+`,`, 1024) + entry + `]`, CodeTooLarge},
		{"too long", strings.Repeat(" ", MaxEventLogSize+1), CodeTooLarge},
		{"invalid UTF-8", "[\"\xff\"]", CodeEventLogInvalid},
		{"deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), CodeEventLogInvalid},
	} {
		_, err := parseEventLog(c.text)
		wantCode(t, c.name, err, c.want)
	}
}

func TestATT19_AmbiguousBootsAreRefused(t *testing.T) {
	index := func(events []event, name string) int {
		return slices.IndexFunc(events, func(e event) bool { return e.name == name })
	}
	before := func(name string, extra event) func([]event) []event {
		return func(events []event) []event { return slices.Insert(events, index(events, name), extra) }
	}
	without := func(name string) func([]event) []event {
		return func(events []event) []event {
			i := index(events, name)
			return slices.Delete(events, i, i+1)
		}
	}
	after := func(extra event) func([]event) []event {
		return func(events []event) []event { return append(events, extra) }
	}
	other20, other32 := bytes.Repeat([]byte{9}, 20), bytes.Repeat([]byte{9}, 32)
	for _, c := range []struct {
		name   string
		change func([]event) []event
		want   policy.Code
	}{
		{"healthy", func(e []event) []event { return e }, ""},
		{"an app's event after the boot", after(runtime("my-app", []byte("x"))), ""},
		{"mr-kms again (KMS failover)", before(eventOSImageHash, runtime(eventMRKMS, other32)), ""},
		{"no optional event", func(e []event) []event {
			for _, name := range []string{eventMRKMS, eventOSImageHash, eventStorageFS} {
				e = without(name)(e)
			}
			return e
		}, ""},
		{"no boundary", without(eventReady), CodeEventLogAmbiguous},
		{"no system-preparing", without(eventPreparing), CodeEventLogAmbiguous},
		{"no app-id", without(eventAppID), CodeEventLogAmbiguous},
		{"no compose-hash", without(eventComposeHash), CodeEventLogAmbiguous},
		{"no instance-id", without(eventInstanceID), CodeEventLogAmbiguous},
		{"no boot-mr-done", without(eventBootMRDone), CodeEventLogAmbiguous},
		{"no key-provider", without(eventKeyProvider), CodeEventLogAmbiguous},
		{"two boundaries", after(runtime(eventReady, nil)), CodeEventLogAmbiguous},
		{"second app-id before the boundary", before(eventReady, runtime(eventAppID, other20)), CodeEventLogAmbiguous},
		{"second app-id in place", before(eventComposeHash, runtime(eventAppID, other20)), CodeEventLogAmbiguous},
		{"second compose-hash after the boundary", after(runtime(eventComposeHash, other32)), CodeEventLogAmbiguous},
		{"second instance-id after the boundary", after(runtime(eventInstanceID, other20)), CodeEventLogAmbiguous},
		{"second key-provider after the boundary", after(runtime(eventKeyProvider, []byte(fakeProvider))), CodeEventLogAmbiguous},
		{"second os-image-hash", before(eventKeyProvider, runtime(eventOSImageHash, other32)), CodeEventLogAmbiguous},
		{"an init script without a GPU policy", before(eventInstanceID, runtime(eventInitScript, other32)), CodeEventLogAmbiguous},
		{"an init script at another place", before(eventReady, runtime(eventInitScript, other32)), CodeEventLogAmbiguous},
		{"unknown name before the boundary", before(eventReady, runtime("verity-volume", other32)), policy.CodeGuestImageNewer},
		{"a GPU policy after the boundary", after(runtime(eventGPUPolicy, other32)), CodeEventLogAmbiguous},
		{"GPUs without a policy", before(eventInstanceID, runtime(eventGPU, []byte("{}"))), CodeEventLogAmbiguous},
		{"folded name", before(eventReady, runtime("App-Id", other20)), CodeEventLogAmbiguous},
		{"out of order", func(e []event) []event {
			i, j := index(e, eventAppID), index(e, eventComposeHash)
			e[i], e[j] = e[j], e[i]
			return e
		}, CodeEventLogAmbiguous},
		{"mr-kms after os-image-hash", before(eventKeyProvider, runtime(eventMRKMS, other32)), CodeEventLogAmbiguous},
		{"short app-id", func(e []event) []event {
			e[index(e, eventAppID)] = runtime(eventAppID, other20[:19])
			return e
		}, CodeEventLogInvalid},
		{"payload in system-ready", func(e []event) []event {
			e[index(e, eventReady)] = runtime(eventReady, []byte{1})
			return e
		}, CodeEventLogInvalid},
		{"key-provider with a doubled key", func(e []event) []event {
			e[index(e, eventKeyProvider)] = runtime(eventKeyProvider, []byte(`{"name":"none","name":"kms","id":"3059"}`))
			return e
		}, CodeEventLogInvalid},
		{"key-provider is no JSON", func(e []event) []event {
			e[index(e, eventKeyProvider)] = runtime(eventKeyProvider, []byte(`kms`))
			return e
		}, CodeEventLogInvalid},
	} {
		f := newFake(t)
		f.events = c.change(slices.Clone(f.events))
		_, err := f.verify(t)
		wantCode(t, c.name, err, c.want)
	}
}

func TestATT19_MixedStylesAreRefused(t *testing.T) {
	f := newFake(t)
	ev := f.evidence(t)
	digest := hex.EncodeToString(f.events[3].digest[:])
	ev.EventLog = strings.Replace(ev.EventLog, digest, "", 1)
	_, err := f.verifier(t).Verify(context.Background(), ev, f.report.ReportData)
	wantCode(t, "one digest left out", err, CodeEventLogAmbiguous)
}

// TestATT20_RegistersAreReportedAsQuoted: Appraise compares them with the images, so every bit of
// them must reach it.
func TestATT20_RegistersAreReportedAsQuoted(t *testing.T) {
	f := newFake(t)
	healthy, err := f.verify(t)
	if err != nil {
		t.Fatal(err)
	}
	for register, change := range map[string]struct {
		flip func()
		read func(policy.Claims) string
	}{
		"MRTD":  {func() { f.report.MRTD[0] ^= 1 }, func(c policy.Claims) string { return c.MRTD }},
		"RTMR0": {func() { f.report.RTMR[0][47] ^= 1 }, func(c policy.Claims) string { return c.RTMR0 }},
		"RTMR1": {func() { f.report.RTMR[1][0] ^= 1 }, func(c policy.Claims) string { return c.RTMR1 }},
		"RTMR2": {func() { f.report.RTMR[2][20] ^= 1 }, func(c policy.Claims) string { return c.RTMR2 }},
	} {
		change.flip()
		claims, err := f.verify(t)
		if err != nil {
			t.Fatal(err)
		}
		if change.read(claims) == change.read(healthy) {
			t.Errorf("%s off by one bit is reported as healthy", register)
		}
	}
}

func TestATT20_BootEventsMustExplainTheirRegister(t *testing.T) {
	f := newFake(t)
	f.events = append([]event{{imr: 1, kind: 4, digest: register{1}}}, f.events...)
	ev := f.evidence(t)
	f.report.RTMR[1][0] ^= 1
	other := *f
	other.events = f.events[1:]
	ev.Quote = other.evidence(t).Quote
	_, err := f.verifier(t).Verify(context.Background(), ev, f.report.ReportData)
	wantCode(t, "RTMR1 is not the replay of its events", err, CodeEventLogInvalid)
}
