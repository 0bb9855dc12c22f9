package attest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"slices"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/policy"
)

func TestATT01_ForgedQuotesAreRefused(t *testing.T) {
	f := newFake(t)
	ev := f.evidence(t)
	mallory := newFake(t).evidence(t)
	chainAt := bytes.Index(ev.Quote, []byte("-----BEGIN"))
	edit := func(change func(q []byte) []byte) []byte { return change(bytes.Clone(ev.Quote)) }
	for _, c := range []struct {
		name  string
		quote []byte
		want  policy.Code
	}{
		{"own root and chain", mallory.Quote, CodeQuoteInvalid},
		{"the trusted chain behind another attestation key", edit(func(q []byte) []byte {
			copy(q[700:764], mallory.Quote[700:764])
			return q
		}), CodeQuoteInvalid},
		{"r and s are zero", edit(func(q []byte) []byte {
			clear(q[636:700])
			return q
		}), CodeQuoteInvalid},
		{"r and s are one", edit(func(q []byte) []byte {
			clear(q[636:700])
			q[667], q[699] = 1, 1
			return q
		}), CodeQuoteInvalid},
		{"attestation key is no point", edit(func(q []byte) []byte {
			clear(q[700:764])
			return q
		}), CodeQuoteInvalid},
		{"no chain", edit(func(q []byte) []byte {
			q = q[:chainAt]
			binary.LittleEndian.PutUint32(q[chainAt-4:], 0)
			binary.LittleEndian.PutUint32(q[766:], uint32(chainAt-770))
			binary.LittleEndian.PutUint32(q[632:], uint32(chainAt-636))
			return q
		}), CodeQuoteMalformed},
		{"text between two certificates", edit(func(q []byte) []byte {
			at := chainAt + bytes.Index(q[chainAt:], []byte("-----END CERTIFICATE-----\n")) + 26
			q = slices.Insert(q, at, 'x', '\n')
			for _, size := range []int{632, 766, chainAt - 4} {
				binary.LittleEndian.PutUint32(q[size:], binary.LittleEndian.Uint32(q[size:])+2)
			}
			return q
		}), CodeQuoteInvalid},
		{"zero bytes after the end", append(bytes.Clone(ev.Quote), make([]byte, 70)...), ""},
		{"another byte after the padding", append(bytes.Clone(ev.Quote), 0, 0, 7), CodeQuoteMalformed},
		{"cut short", ev.Quote[:len(ev.Quote)-1], CodeQuoteMalformed},
		{"empty", nil, CodeQuoteMalformed},
		{"too long", append(bytes.Clone(ev.Quote), make([]byte, MaxQuoteSize)...), CodeTooLarge},
	} {
		_, err := f.verifier(t).Verify(context.Background(), Evidence{Quote: c.quote, EventLog: ev.EventLog, AppCompose: ev.AppCompose}, f.report.ReportData)
		wantCode(t, c.name, err, c.want)
	}
}

func TestATT01_EveryFlippedByteOfASimulatedQuoteIsRefused(t *testing.T) {
	f := newFake(t)
	v, ev := f.verifier(t), f.evidence(t)
	flips(t, ev.Quote, func(i int, flipped []byte) {
		_, err := v.Verify(context.Background(), Evidence{Quote: flipped, EventLog: ev.EventLog, AppCompose: ev.AppCompose}, f.report.ReportData)
		if codeOf(err) == "" {
			t.Errorf("byte %d changed: accepted", i)
		}
	})
}

func TestATT02_OtherTEEsAreRefused(t *testing.T) {
	f := newFake(t)
	ev := f.evidence(t)
	for _, tee := range []uint32{0, 0x80, 0x82, 0x810000, ^uint32(0)} {
		binary.LittleEndian.PutUint32(ev.Quote[4:], tee)
		_, err := f.verifier(t).Verify(context.Background(), ev, f.report.ReportData)
		wantCode(t, "TEE type", err, CodeTEETypeForbidden)
	}
}

func TestATT03_OtherQuotingEnclavesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*attestsim.QuotingEnclave){
		"vendor":          func(q *attestsim.QuotingEnclave) { q.VendorID[0] ^= 1 },
		"signer":          func(q *attestsim.QuotingEnclave) { q.MRSigner[31] ^= 1 },
		"SGX product":     func(q *attestsim.QuotingEnclave) { q.ProdID = 1 },
		"debug":           func(q *attestsim.QuotingEnclave) { q.Attributes[0] |= 2 },
		"not initialised": func(q *attestsim.QuotingEnclave) { q.Attributes[0] &^= 1 },
		"no provisioning": func(q *attestsim.QuotingEnclave) { q.Attributes[0] &^= 0x10 },
		"reserved":        func(q *attestsim.QuotingEnclave) { q.Attributes[7] = 1 },
		"miscselect":      func(q *attestsim.QuotingEnclave) { q.MiscSelect = 1 },
	} {
		f := newFake(t)
		change(&f.qe)
		_, err := f.verify(t)
		wantCode(t, name, err, CodeQEIdentityInvalid)
	}
}

func TestATT07_DebugTDIsRefused(t *testing.T) {
	f := newFake(t)
	for bit := range 8 {
		f.report.TDAttributes = attestsim.HealthyTDAttributes | 1<<bit
		_, err := f.verify(t)
		wantCode(t, "TUD bit", err, CodeTDDebug)
	}
}

func TestATT08_AttributesFollowTheWrittenTable(t *testing.T) {
	f := newFake(t)
	mayBeSet := map[int]bool{27: true, 28: true, 30: true}
	for bit := 8; bit < 64; bit++ {
		f.report.TDAttributes = attestsim.HealthyTDAttributes | 1<<bit
		_, err := f.verify(t)
		want := CodeTDAttributesForbidden
		if mayBeSet[bit] {
			want = ""
		}
		wantCode(t, "TD attribute bit", err, want)
	}
	f.report.TDAttributes = 0
	_, err := f.verify(t)
	wantCode(t, "SEPT_VE_DISABLE clear", err, CodeTDAttributesForbidden)

	f.report.TDAttributes = attestsim.HealthyTDAttributes
	xfam := map[int]bool{0: true, 1: true, 2: true, 5: true, 6: true, 7: true, 9: true, 11: true, 12: true, 17: true, 18: true}
	for bit := range 64 {
		f.report.XFAM = 3 | 1<<bit
		_, err := f.verify(t)
		want := CodeTDAttributesForbidden
		if xfam[bit] {
			want = ""
		}
		wantCode(t, "XFAM bit", err, want)
	}
	f.report.XFAM = 1
	_, err = f.verify(t)
	wantCode(t, "XFAM without SSE", err, CodeTDAttributesForbidden)
}

func TestATT08_OwnerAndSEAMFieldsMustBeZero(t *testing.T) {
	for name, change := range map[string]func(*attestsim.Report){
		"SEAM signer":     func(r *attestsim.Report) { r.MRSignerSEAM[47] = 1 },
		"SEAM attributes": func(r *attestsim.Report) { r.SEAMAttributes = 1 << 63 },
		"MROWNER":         func(r *attestsim.Report) { r.MROwner[0] = 1 },
		"MROWNERCONFIG":   func(r *attestsim.Report) { r.MROwnerConfig[0] = 1 },
	} {
		f := newFake(t)
		change(&f.report)
		_, err := f.verify(t)
		wantCode(t, name, err, CodeTDAttributesForbidden)
	}
}

// TestATT14_QuotesForOtherPurposesAreRefused covers dstack's own quotes.
func TestATT14_QuotesForOtherPurposesAreRefused(t *testing.T) {
	message := []byte("statement")
	want := sha512.Sum512(append([]byte("cadre-agent-statement\x00"), message...))
	short := sha256.Sum256(message)
	var padded [64]byte
	copy(padded[:], short[:])
	for name, data := range map[string][64]byte{
		"RA-TLS":         sha512.Sum512(append([]byte("ratls-cert:"), message...)),
		"app data":       sha512.Sum512(append([]byte("app-data:"), message...)),
		"no tag":         sha512.Sum512(message),
		"SHA-256 padded": padded,
		"zero":           {},
	} {
		f := newFake(t)
		f.report.ReportData = data
		_, err := f.verifier(t).Verify(context.Background(), f.evidence(t), want)
		wantCode(t, name, err, CodeReportDataMismatch)
	}
}

func TestATT26_OtherQuoteVersionsAreRefused(t *testing.T) {
	f := newFake(t)
	ev := f.evidence(t)
	for _, version := range []uint16{0, 3, 6, 0xffff} {
		binary.LittleEndian.PutUint16(ev.Quote, version)
		_, err := f.verifier(t).Verify(context.Background(), ev, f.report.ReportData)
		wantCode(t, "version", err, CodeUnsupportedVersion)
	}
}

func TestMRConfigIDVectors(t *testing.T) {
	composeHash, appID := bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{1}, 20)
	v1 := append(append([]byte{1}, composeHash...), make([]byte, 15)...)
	if got := mrConfigIDV1(composeHash); !bytes.Equal(got, v1) {
		t.Errorf("version 1: %x", got)
	}
	v2 := unhex(t, "02e6b699c5a73baf04f329c15c7b5d5a6f4fffb388ae6ed57e3df86af008c89ecc000000000000000000000000000000")
	if got := mrConfigIDV2(composeHash, appID, keyProviderKinds["kms"], []byte{0x30, 0x59}); !bytes.Equal(got, v2) {
		t.Errorf("version 2: %x", got)
	}
}

func TestMRConfigIDMustMatchWhenSet(t *testing.T) {
	hash := sha256.Sum256(fakeCompose)
	good1 := mrConfigIDV1(hash[:])
	good2 := mrConfigIDV2(hash[:], fakeAppID, 2, []byte{0x30, 0x59})
	bent := func(id []byte, at int) []byte {
		id = bytes.Clone(id)
		id[at] ^= 1
		return id
	}
	for _, c := range []struct {
		name string
		id   []byte
		want policy.Code
	}{
		{"unset", make([]byte, 48), ""},
		{"version 1", good1, ""},
		{"version 2", good2, ""},
		{"version 1 of another compose", bent(good1, 5), CodeTDAttributesForbidden},
		{"version 1 with a tail", bent(good1, 47), CodeTDAttributesForbidden},
		{"version 2 of another app", bent(good2, 5), CodeTDAttributesForbidden},
		{"version 3 of something else", append([]byte{3}, good1[1:]...), CodeTDAttributesForbidden},
		{"version 4", append([]byte{4}, good1[1:]...), policy.CodeGuestImageNewer},
		{"version 0 with content", bent(make([]byte, 48), 47), CodeUnsupportedVersion},
	} {
		f := newFake(t)
		copy(f.report.MRConfigID[:], c.id)
		_, err := f.verify(t)
		wantCode(t, c.name, err, c.want)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.verifier(t).Verify(ctx, f.evidence(t), f.report.ReportData); err == nil {
		t.Error("verified for a caller that has gone")
	}
}
