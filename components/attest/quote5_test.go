package attest

import (
	"context"
	"encoding/binary"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/core/policy"
)

// TestATT01_QuotesOfVersion5: both bodies are judged, with the additions of TD 1.5.
func TestATT01_QuotesOfVersion5(t *testing.T) {
	svn := attestsim.HealthyTEETCBSVN()
	older := svn
	older[0] = 1 // a level of the module that is OutOfDate
	below := svn
	below[0] = 0
	for name, c := range map[string]struct {
		edit   func(*attestsim.Report)
		want   policy.Code
		status string
	}{
		"TD 1.0":                        {func(r *attestsim.Report) { r.BodyType = attestsim.TD10 }, "", "UpToDate"},
		"TD 1.5":                        {func(*attestsim.Report) {}, "", "UpToDate"},
		"the module was updated since":  {func(r *attestsim.Report) { r.TEETCBSVN = older }, "", "OutOfDate"},
		"the module went back since":    {func(r *attestsim.Report) { r.TEETCBSVN2 = older }, "", "OutOfDate"},
		"both are old":                  {func(r *attestsim.Report) { r.TEETCBSVN, r.TEETCBSVN2 = older, older }, "", "OutOfDate"},
		"the module is below all now":   {func(r *attestsim.Report) { r.TEETCBSVN2 = below }, policy.CodeTCBOutOfDate, ""},
		"the module is none that exist": {func(r *attestsim.Report) { r.TEETCBSVN2[1] = 9 }, policy.CodeTCBOutOfDate, ""},
		"bound to a service TD":         {func(r *attestsim.Report) { r.MRServiceTD[47] = 1 }, CodeTDAttributesForbidden, ""},
		"debug":                         {func(r *attestsim.Report) { r.TDAttributes |= 1 }, CodeTDDebug, ""},
		"migratable":                    {func(r *attestsim.Report) { r.TDAttributes |= 1 << 29 }, CodeTDAttributesForbidden, ""},
		"a body that does not exist":    {func(r *attestsim.Report) { r.BodyType = 4 }, CodeTEETypeForbidden, ""},
		"an SGX body":                   {func(r *attestsim.Report) { r.BodyType = 1 }, CodeTEETypeForbidden, ""},
	} {
		j := newJudge(t, nil)
		j.report.BodyType, j.report.TEETCBSVN2 = attestsim.TD15, svn
		c.edit(&j.report)
		tcb, err := j.judge(t)
		wantCode(t, name, err, c.want)
		if tcb.Status != c.status {
			t.Errorf("%s: status %q, want %q", name, tcb.Status, c.status)
		}
	}
}

// TestATT01_EveryFlippedByteOfAVersion5IsRefused, those of the body's own header included.
func TestATT01_EveryFlippedByteOfAVersion5IsRefused(t *testing.T) {
	f := newFake(t)
	f.report.BodyType, f.report.TEETCBSVN2 = attestsim.TD15, attestsim.HealthyTEETCBSVN()
	v, ev := f.verifier(t), f.evidence(t)
	if _, err := v.Verify(context.Background(), ev, f.report.ReportData); err != nil {
		t.Fatal(err)
	}
	flips(t, ev.Quote, func(i int, flipped []byte) {
		bent := ev
		bent.Quote = flipped
		if _, err := v.Verify(context.Background(), bent, f.report.ReportData); codeOf(err) == "" {
			t.Errorf("byte %d changed: accepted", i)
		}
	})
}

// TestATT01_AVersion5IsNoVersion4: the same content under the other version is rejected, and so is
// a part of it.
func TestATT01_AVersion5IsNoVersion4(t *testing.T) {
	f := newFake(t)
	f.report.BodyType = attestsim.TD10
	v, ev := f.verifier(t), f.evidence(t)
	four := append(append([]byte{}, ev.Quote[:headerSize]...), ev.Quote[headerSize+bodyHeaderSize:]...)
	binary.LittleEndian.PutUint16(four, quoteVersion)
	f.report.BodyType = 0
	five := append(append(append([]byte{}, f.evidence(t).Quote[:headerSize]...), bodyTypeTD10, 0, 0x48, 2, 0, 0), f.evidence(t).Quote[headerSize:]...)
	binary.LittleEndian.PutUint16(five, quoteVersion5)
	for name, raw := range map[string][]byte{"5 as 4": four, "4 as 5": five} {
		bent := ev
		bent.Quote = raw
		_, err := v.Verify(context.Background(), bent, f.report.ReportData)
		wantCode(t, name, err, CodeQuoteInvalid)
	}
	for n := 0; n < len(ev.Quote); n += 7 {
		if _, err := parseQuote(ev.Quote[:n]); codeOf(err) == "" {
			t.Errorf("the first %d bytes were read", n)
		}
	}
	wrong := append([]byte{}, ev.Quote...)
	binary.LittleEndian.PutUint32(wrong[headerSize+2:], bodySize+1)
	_, err := parseQuote(wrong)
	wantCode(t, "another size of the body", err, CodeQuoteMalformed)
}

// TestRealQuotesOfVersion5: two other verifiers accept the second with this collateral.
func TestRealQuotesOfVersion5(t *testing.T) {
	for name, c := range map[string]struct {
		want   policy.Code
		status string
	}{"v5_1": {CodeTDAttributesForbidden, ""}, "v5_3": {"", "UpToDate"}} {
		status, err := judgeQuote(t, evidenceFile(t, "quotes", name+".bin"), "90c06f_2026-02-18_eval18")
		wantCode(t, name, err, c.want)
		if status != c.status {
			t.Errorf("%s: status %q, want %q", name, status, c.status)
		}
	}
}
