package attest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// sourceFunc is a Source that counts.
type sourceFunc struct {
	calls int
	f     func(fmspc string) (collateral.Bundle, error)
}

func (s *sourceFunc) Bundle(_ context.Context, fmspc string) (collateral.Bundle, error) {
	s.calls++
	return s.f(fmspc)
}

// judge is a verifier whose manufacturer publishes posture.
type judge struct {
	*fake
	posture attestsim.Posture
	source  *sourceFunc
	now     time.Time
	v       *Verifier
}

func newJudge(t testing.TB, change func(*VerifierConfig)) *judge {
	t.Helper()
	j := &judge{fake: newFake(t), now: simNow()}
	j.source = &sourceFunc{f: func(string) (collateral.Bundle, error) { return j.cloud.Collateral(j.now, j.posture) }}
	cfg := VerifierConfig{RootsPEM: j.cloud.RootPEM(), Collateral: j.source, Now: func() time.Time { return j.now }}
	if change != nil {
		change(&cfg)
	}
	var err error
	if j.v, err = NewVerifier(cfg); err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *judge) judge(t testing.TB) (policy.TCB, error) {
	t.Helper()
	claims, err := j.v.Verify(context.Background(), j.evidence(t), j.report.ReportData)
	return claims.TCB, err
}

func TestATT04_TCBIsTheWorstOfThree(t *testing.T) {
	type p = attestsim.Posture
	for _, c := range []struct {
		posture p
		want    string
	}{
		{p{}, "UpToDate"},
		{p{Platform: "SWHardeningNeeded"}, "SWHardeningNeeded"},
		{p{Platform: "ConfigurationNeeded"}, "ConfigurationNeeded"},
		{p{Platform: "ConfigurationAndSWHardeningNeeded"}, "ConfigurationAndSWHardeningNeeded"},
		{p{Platform: "OutOfDate"}, "OutOfDate"},
		{p{Platform: "OutOfDateConfigurationNeeded"}, "OutOfDateConfigurationNeeded"},
		{p{Platform: "Revoked"}, "Revoked"},
		{p{Module: "OutOfDate"}, "OutOfDate"},
		{p{Module: "Revoked"}, "Revoked"},
		{p{QE: "OutOfDate"}, "OutOfDate"},
		{p{QE: "Revoked"}, "Revoked"},
		{p{Platform: "SWHardeningNeeded", QE: "OutOfDate"}, "OutOfDate"},
		{p{Platform: "ConfigurationNeeded", QE: "OutOfDate"}, "OutOfDateConfigurationNeeded"},
		{p{Platform: "ConfigurationNeeded", QE: "SWHardeningNeeded"}, "ConfigurationAndSWHardeningNeeded"},
		{p{Platform: "ConfigurationAndSWHardeningNeeded", Module: "OutOfDate"}, "OutOfDateConfigurationNeeded"},
		{p{Platform: "OutOfDate", QE: "Revoked"}, "Revoked"},
	} {
		j := newJudge(t, nil)
		j.posture = c.posture
		tcb, err := j.judge(t)
		if err != nil || tcb.Status != c.want {
			t.Errorf("%+v: status %q, error %v; want %s", c.posture, tcb.Status, err, c.want)
		}
		if allowed := policy.AppraiseTCB(policy.TCBPolicy{}, tcb, j.now).Allowed; allowed != (c.want == "UpToDate") {
			t.Errorf("%+v: allowed %t without any exception", c.posture, allowed)
		}
	}
}

func TestATT04_AdvisoriesAndNumbersAreClaims(t *testing.T) {
	j := newJudge(t, nil)
	j.posture = attestsim.Posture{Platform: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00828", "INTEL-SA-00615"}, Evaluation: 21}
	j.posture.Edit = func(tcb, qe map[string]any) {
		module := tcb["tdxModuleIdentities"].([]any)[0].(map[string]any)
		module["tcbLevels"].([]any)[0].(map[string]any)["advisoryIDs"] = []string{"INTEL-SA-00615", "INTEL-SA-01000"}
		qe["tcbEvaluationDataNumber"] = 20
	}
	tcb, err := j.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"INTEL-SA-00615", "INTEL-SA-00828", "INTEL-SA-01000"}
	if !slices.Equal(tcb.Advisories, want) || tcb.EvaluationNumber != 20 || tcb.FMSPC != attestsim.FMSPC() || !tcb.ValidUntil.Equal(j.now.Add(30*24*time.Hour)) {
		t.Errorf("claims %+v, want advisories %v", tcb, want)
	}
}

// levels of a document by path, for edits.
func platformLevel(tcb map[string]any, i int) map[string]any {
	return tcb["tcbLevels"].([]any)[i].(map[string]any)["tcb"].(map[string]any)
}

func TestATT04_LevelsMustFitExactly(t *testing.T) {
	cut := func(name string, n int) func(tcb, qe map[string]any) {
		return func(tcb, _ map[string]any) {
			level := platformLevel(tcb, 0)
			list := level[name].([]any)
			for len(list) < n {
				list = append(list, map[string]any{"svn": 0})
			}
			level[name] = list[:n]
		}
	}
	module := func(change func(m map[string]any)) func(tcb, qe map[string]any) {
		return func(tcb, _ map[string]any) { change(tcb["tdxModuleIdentities"].([]any)[0].(map[string]any)) }
	}
	for name, c := range map[string]struct {
		edit func(tcb, qe map[string]any)
		want policy.Code
	}{
		"15 SGX components":      {cut("sgxtcbcomponents", 15), policy.CodeCollateralUnavailable},
		"17 SGX components":      {cut("sgxtcbcomponents", 17), policy.CodeCollateralUnavailable},
		"no SGX components":      {cut("sgxtcbcomponents", 0), policy.CodeCollateralUnavailable},
		"15 TDX components":      {cut("tdxtcbcomponents", 15), policy.CodeCollateralUnavailable},
		"17 TDX components":      {cut("tdxtcbcomponents", 17), policy.CodeCollateralUnavailable},
		"no levels":              {func(tcb, _ map[string]any) { tcb["tcbLevels"] = []any{} }, policy.CodeCollateralUnavailable},
		"no tcbType":             {func(tcb, _ map[string]any) { delete(tcb, "tcbType") }, policy.CodeCollateralUnavailable},
		"a null tcbType":         {func(tcb, _ map[string]any) { tcb["tcbType"] = nil }, policy.CodeCollateralUnavailable},
		"another tcbType":        {func(tcb, _ map[string]any) { tcb["tcbType"] = 1 }, policy.CodeCollateralUnavailable},
		"levels out of order":    {func(tcb, _ map[string]any) { slices.Reverse(tcb["tcbLevels"].([]any)) }, policy.CodeCollateralUnavailable},
		"a level twice":          {func(tcb, _ map[string]any) { l := tcb["tcbLevels"].([]any); tcb["tcbLevels"] = []any{l[0], l[0], l[1]} }, policy.CodeCollateralUnavailable},
		"QE levels out of order": {func(_, qe map[string]any) { slices.Reverse(qe["tcbLevels"].([]any)) }, policy.CodeCollateralUnavailable},
		"module levels out of order": {func(tcb, _ map[string]any) {
			slices.Reverse(tcb["tdxModuleIdentities"].([]any)[0].(map[string]any)["tcbLevels"].([]any))
		}, policy.CodeCollateralUnavailable},
		"a module that needs configuration": {func(tcb, _ map[string]any) {
			tcb["tdxModuleIdentities"].([]any)[0].(map[string]any)["tcbLevels"].([]any)[0].(map[string]any)["tcbStatus"] = "ConfigurationNeeded"
		}, policy.CodeCollateralUnavailable},
		"an unknown status":       {func(tcb, _ map[string]any) { tcb["tcbLevels"].([]any)[1].(map[string]any)["tcbStatus"] = "Fine" }, policy.CodeCollateralUnavailable},
		"no status":               {func(tcb, _ map[string]any) { delete(tcb["tcbLevels"].([]any)[0].(map[string]any), "tcbStatus") }, policy.CodeCollateralUnavailable},
		"another version":         {func(tcb, _ map[string]any) { tcb["version"] = 2 }, policy.CodeCollateralUnavailable},
		"SGX info":                {func(tcb, _ map[string]any) { tcb["id"] = "SGX" }, policy.CodeCollateralUnavailable},
		"another tcb type":        {func(tcb, _ map[string]any) { tcb["tcbType"] = 1 }, policy.CodeCollateralUnavailable},
		"a case-folded name":      {func(tcb, _ map[string]any) { tcb["TCBType"] = 0 }, policy.CodeCollateralUnavailable},
		"no evaluation number":    {func(tcb, _ map[string]any) { delete(tcb, "tcbEvaluationDataNumber") }, policy.CodeCollateralUnavailable},
		"another FMSPC":           {func(tcb, _ map[string]any) { tcb["fmspc"] = "000000000000" }, policy.CodeCollateralUnavailable},
		"another PCE":             {func(tcb, _ map[string]any) { tcb["pceId"] = "0001" }, policy.CodeCollateralUnavailable},
		"the enclave of SGX":      {func(_, qe map[string]any) { qe["id"] = "QE" }, policy.CodeCollateralUnavailable},
		"the module is not named": {module(func(m map[string]any) { m["id"] = "TDX_02" }), policy.CodeTCBOutOfDate},
		"another module signer":   {module(func(m map[string]any) { m["mrsigner"] = strings.Repeat("01", 48) }), policy.CodeTDAttributesForbidden},
		"other module attributes": {module(func(m map[string]any) { m["attributes"] = "0100000000000000" }), policy.CodeTDAttributesForbidden},
		"the module is below all": {module(func(m map[string]any) {
			m["tcbLevels"] = m["tcbLevels"].([]any)[:1]
			m["tcbLevels"].([]any)[0].(map[string]any)["tcb"] = map[string]any{"isvsvn": 8}
		}), policy.CodeTCBOutOfDate},
		"the platform is below all": {func(tcb, _ map[string]any) {
			tcb["tcbLevels"] = tcb["tcbLevels"].([]any)[:1]
			platformLevel(tcb, 0)["pcesvn"] = 12
		}, policy.CodeTCBOutOfDate},
	} {
		j := newJudge(t, nil)
		j.posture.Edit = c.edit
		_, err := j.judge(t)
		wantCode(t, name, err, c.want)
	}
}

// One component below the level is enough to fall to the next one.
func TestATT04_EveryComponentCounts(t *testing.T) {
	for i := range 16 {
		for _, list := range []string{"sgxtcbcomponents", "tdxtcbcomponents"} {
			j := newJudge(t, nil)
			j.posture.Edit = func(tcb, _ map[string]any) {
				platformLevel(tcb, 0)[list].([]any)[i] = map[string]any{"svn": 200}
			}
			tcb, err := j.judge(t)
			want := "OutOfDate"
			if list == "tdxtcbcomponents" && i < 2 {
				want = "UpToDate" // the module's own levels are more precise
			}
			if err != nil || tcb.Status != want {
				t.Errorf("%s[%d]: status %q, error %v; want %s", list, i, tcb.Status, err, want)
			}
		}
	}
}

func TestATT03_TheCollateralNamesTheQuotingEnclave(t *testing.T) {
	for name, edit := range map[string]func(qe map[string]any){
		"signer":     func(qe map[string]any) { qe["mrsigner"] = strings.Repeat("01", 32) },
		"product":    func(qe map[string]any) { qe["isvprodid"] = 1 },
		"attributes": func(qe map[string]any) { qe["attributes"] = "13000000000000000000000000000000" },
		"miscselect": func(qe map[string]any) { qe["miscselect"] = "01000000" },
		"svn": func(qe map[string]any) {
			qe["tcbLevels"] = []any{map[string]any{"tcb": map[string]any{"isvsvn": 7}, "tcbStatus": "UpToDate"}}
		},
	} {
		j := newJudge(t, nil)
		j.posture.Edit = func(_, qe map[string]any) { edit(qe) }
		_, err := j.judge(t)
		wantCode(t, name, err, CodeQEIdentityInvalid)
	}
	j := newJudge(t, nil)
	j.qe.SVN = 1
	_, err := j.judge(t)
	wantCode(t, "an old enclave", err, CodeQEIdentityInvalid)
}

func TestATT05_StaleCollateralIsRefused(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		posture attestsim.Posture
		maxAge  time.Duration
		want    policy.Code
	}{
		"of today":             {attestsim.Posture{}, 0, ""},
		"on its last day":      {attestsim.Posture{Age: 29 * day}, 0, ""},
		"expired":              {attestsim.Posture{Age: 31 * day}, 0, policy.CodeCollateralExpired},
		"of the future":        {attestsim.Posture{Age: -2 * day}, 0, policy.CodeClockUntrusted},
		"within the age limit": {attestsim.Posture{Age: 6 * day}, 7 * day, ""},
		"beyond the age limit": {attestsim.Posture{Age: 8 * day}, 7 * day, policy.CodeCollateralExpired},
		"TCB info has expired": {attestsim.Posture{Edit: func(tcb, _ map[string]any) {
			tcb["issueDate"], tcb["nextUpdate"] = "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"
		}}, 0, policy.CodeCollateralExpired},
		"the identity expired": {attestsim.Posture{Edit: func(_, qe map[string]any) {
			qe["issueDate"], qe["nextUpdate"] = "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"
		}}, 0, policy.CodeCollateralExpired},
		"it ends before begins": {attestsim.Posture{Edit: func(tcb, _ map[string]any) { tcb["nextUpdate"] = tcb["issueDate"] }}, 0, policy.CodeCollateralUnavailable},
	} {
		j := newJudge(t, func(cfg *VerifierConfig) { cfg.MaxCollateralAge = c.maxAge })
		j.posture = c.posture
		_, err := j.judge(t)
		wantCode(t, name, err, c.want)
		if refused, ok := errors.AsType[*Error](err); ok && c.want != policy.CodeCollateralRollback && !refused.Retryable() {
			t.Errorf("%s: %s is not marked as one to retry", name, refused.Code)
		}
	}
}

func TestATT05_AnOlderEvaluationNumberIsARollback(t *testing.T) {
	marks := &collateral.Memory{}
	for _, step := range []struct {
		name string
		tcb  uint32
		qe   uint32
		want policy.Code
	}{
		{"first", 17, 17, ""},
		{"newer", 19, 19, ""},
		{"same", 19, 19, ""},
		{"one older", 18, 19, policy.CodeCollateralRollback},
		{"identity older", 19, 18, policy.CodeCollateralRollback},
		{"newest", 20, 20, ""},
	} {
		// Another coordinator each time: only the marks are shared.
		j := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = marks })
		j.posture.Edit = func(tcb, qe map[string]any) {
			tcb["tcbEvaluationDataNumber"], qe["tcbEvaluationDataNumber"] = step.tcb, step.qe
		}
		_, err := j.judge(t)
		wantCode(t, step.name, err, step.want)
	}
}

// failing is a record that cannot be read or written.
type failing struct{ collateral.Memory }

func (*failing) Get(context.Context, string) (policy.CollateralWatermark, error) {
	return policy.CollateralWatermark{}, errors.New("no quorum")
}

func TestATT05_AnUnreadableRecordRefuses(t *testing.T) {
	j := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = &failing{} })
	_, err := j.judge(t)
	wantCode(t, "record not readable", err, policy.CodeCollateralUnavailable)
}

func TestATT06_RevokedCertificatesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		posture attestsim.Posture
		want    policy.Code
	}{
		"the machine":     {attestsim.Posture{RevokedHosts: []string{""}}, policy.CodeQuoteRevoked},
		"another machine": {attestsim.Posture{RevokedHosts: []string{"other"}}, ""},
		"one of many":     {attestsim.Posture{RevokedHosts: []string{"a", "b", "", "c", "d"}}, policy.CodeQuoteRevoked},
		"its CA":          {attestsim.Posture{RevokedCA: true}, policy.CodeQuoteRevoked},
		"the signer":      {attestsim.Posture{RevokedSigner: true}, policy.CodeCollateralUnavailable},
	} {
		j := newJudge(t, nil)
		j.posture = c.posture
		_, err := j.judge(t)
		wantCode(t, name, err, c.want)
	}
}

// A revocation takes effect at the next call, even for evidence accepted before.
func TestATT06_RevocationIsNotCached(t *testing.T) {
	j := newJudge(t, nil)
	if _, err := j.judge(t); err != nil {
		t.Fatal(err)
	}
	j.posture.RevokedHosts = []string{""}
	_, err := j.judge(t)
	wantCode(t, "revoked meanwhile", err, policy.CodeQuoteRevoked)
}

func TestATT06_WithoutListsNoEvidenceIsAccepted(t *testing.T) {
	other := newFake(t)
	for name, edit := range map[string]func(b *collateral.Bundle){
		"no PCK list":     func(b *collateral.Bundle) { b.PCKCRL = nil },
		"no root list":    func(b *collateral.Bundle) { b.RootCRL = nil },
		"no chain":        func(b *collateral.Bundle) { b.PCKCRLChain = "" },
		"lists swapped":   func(b *collateral.Bundle) { b.PCKCRL, b.RootCRL = b.RootCRL, b.PCKCRL },
		"root list twice": func(b *collateral.Bundle) { b.PCKCRL = b.RootCRL },
		"list of another CA": func(b *collateral.Bundle) {
			foreign, _ := other.cloud.Collateral(simNow(), attestsim.Posture{})
			b.PCKCRL, b.PCKCRLChain = foreign.PCKCRL, foreign.PCKCRLChain
		},
		"all of another CA": func(b *collateral.Bundle) { *b, _ = other.cloud.Collateral(simNow(), attestsim.Posture{}) },
		"signature changed": func(b *collateral.Bundle) { b.PCKCRL[len(b.PCKCRL)-1] ^= 1 },
		"TCB info changed":  func(b *collateral.Bundle) { b.TCBInfo = strings.Replace(b.TCBInfo, `"svn":5`, `"svn":4`, 1) },
		"identity changed": func(b *collateral.Bundle) {
			b.QEIdentity = strings.Replace(b.QEIdentity, `"isvsvn":6`, `"isvsvn":0`, 1)
		},
		"space inside": func(b *collateral.Bundle) { b.TCBInfo = strings.Replace(b.TCBInfo, `"id":"TDX"`, `"id": "TDX"`, 1) },
		"key twice": func(b *collateral.Bundle) {
			b.TCBInfo = strings.Replace(b.TCBInfo, `{"tcbInfo"`, `{"tcbInfo":{},"tcbInfo"`, 1)
		},
		"another key": func(b *collateral.Bundle) {
			b.TCBInfo = strings.Replace(b.TCBInfo, `"signature"`, `"more":1,"signature"`, 1)
		},
		"signed by the CA": func(b *collateral.Bundle) { b.TCBInfoChain = b.PCKCRLChain },
		"root signs itself": func(b *collateral.Bundle) {
			b.TCBInfoChain = b.TCBInfoChain[strings.LastIndex(b.TCBInfoChain, "-----BEGIN"):]
		},
	} {
		j := newJudge(t, nil)
		j.source.f = func(string) (collateral.Bundle, error) {
			b, err := j.cloud.Collateral(j.now, attestsim.Posture{})
			edit(&b)
			return b, err
		}
		_, err := j.judge(t)
		wantCode(t, name, err, policy.CodeCollateralUnavailable)
	}
}

func TestATT28_NothingUnverifiedCausesAFetch(t *testing.T) {
	j := newJudge(t, nil)
	ev := j.evidence(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		bad := ev
		bad.Quote = slices.Clone(ev.Quote)
		// Anywhere: header, body, signatures, the chain with the FMSPC.
		bad.Quote[random.IntN(len(bad.Quote))] ^= byte(1 + random.IntN(255))
		if _, err := j.v.Verify(context.Background(), bad, j.report.ReportData); err == nil {
			t.Fatal("a changed quote was accepted")
		}
	}
	foreign := newFake(t).evidence(t)
	_, err := j.v.Verify(context.Background(), foreign, j.report.ReportData)
	wantCode(t, "foreign root", err, CodeQuoteInvalid)
	_, err = j.v.Verify(context.Background(), ev, [64]byte{9})
	wantCode(t, "other report data", err, CodeReportDataMismatch)
	if _, err := j.v.CollateralFor(context.Background(), foreign.Quote); err == nil {
		t.Error("collateral was looked up for a foreign chain")
	}
	if j.source.calls != 0 {
		t.Errorf("%d fetches for evidence that is not genuine", j.source.calls)
	}
	if _, err := j.v.Verify(context.Background(), ev, j.report.ReportData); err != nil || j.source.calls != 1 {
		t.Errorf("genuine evidence: %v, %d fetches", err, j.source.calls)
	}
}

func TestATT29_TheClockMustNotBeBeforeIntelsSignatures(t *testing.T) {
	day := 24 * time.Hour
	marks := &collateral.Memory{}
	j := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = marks })
	start := j.now
	// Only the bundle of the start exists; the clock moves.
	bundle, err := j.cloud.Collateral(start, attestsim.Posture{})
	if err != nil {
		t.Fatal(err)
	}
	j.source.f = func(string) (collateral.Bundle, error) { return bundle, nil }
	for _, step := range []struct {
		move time.Duration
		want policy.Code
	}{
		{0, ""}, {time.Hour, ""}, {-time.Minute, ""}, {-time.Hour, policy.CodeClockUntrusted}, {-45 * day, policy.CodeClockUntrusted},
		{29 * day, ""}, {45 * day, policy.CodeCollateralExpired}, {0, ""},
	} {
		j.now = start.Add(step.move)
		_, err := j.judge(t)
		wantCode(t, fmt.Sprint("clock moved by ", step.move), err, step.want)
	}
	// Older collateral that would fit a clock in the past does not help: another
	// process shares the mark.
	late := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = marks })
	late.now = start.Add(-40 * day)
	_, err = late.judge(t)
	wantCode(t, "clock and collateral of the past", err, policy.CodeClockUntrusted)
	// The same holds for a new family of machines: a time that Intel signed for one family binds
	// all.
	other := &collateral.Memory{}
	if err := other.Raise(t.Context(), policy.CollateralWatermark{FMSPC: "ffffffffffff", IssuedAt: start}); err != nil {
		t.Fatal(err)
	}
	late = newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = other })
	late.now = start.Add(-45 * day)
	_, err = late.judge(t)
	wantCode(t, "another family at a clock of the past", err, policy.CodeClockUntrusted)
}

func TestCollateralComesWithTheEvidence(t *testing.T) {
	j := newJudge(t, nil)
	ev := j.evidence(t)
	document, err := j.v.CollateralFor(context.Background(), ev.Quote)
	if err != nil {
		t.Fatal(err)
	}
	// An agent has no source of its own.
	v := j.verifier(t)
	claims, err := v.Verify(context.Background(), ev, j.report.ReportData)
	if err != nil || claims.TCB.Status != "" {
		t.Errorf("without collateral: status %q, error %v", claims.TCB.Status, err)
	}
	if d := policy.AppraiseTCB(policy.TCBPolicy{}, claims.TCB, j.now); d.Allowed || d.Code != policy.CodeCollateralUnavailable {
		t.Errorf("a TCB that was not evaluated: %+v", d)
	}
	ev.Collateral = document
	for range 2 { // the second one from the cache
		claims, err = v.Verify(context.Background(), ev, j.report.ReportData)
		if err != nil || claims.TCB.Status != "UpToDate" {
			t.Errorf("with collateral: status %q, error %v", claims.TCB.Status, err)
		}
	}
	for i := range 200 {
		at := i * len(document) / 200
		bad := slices.Clone(document)
		bad[at] ^= 4
		ev.Collateral = bad
		if claims, err := v.Verify(context.Background(), ev, j.report.ReportData); err == nil {
			t.Errorf("collateral with byte %d changed gave %+v", at, claims.TCB)
		}
	}
	ev.Collateral = make([]byte, collateral.MaxBundleSize+1)
	_, err = v.Verify(context.Background(), ev, j.report.ReportData)
	wantCode(t, "too long", err, CodeTooLarge)
	// A coordinator judges by its own collateral and ignores that of the evidence.
	ev.Collateral = []byte("junk")
	if _, err := j.v.Verify(context.Background(), ev, j.report.ReportData); err != nil {
		t.Error(err)
	}
}

// TestATT04_OnlyDatesOfTheCollateralBeginAGrace: the part that was replaced first counts, and a
// part with another fault yields no date at all.
func TestATT04_OnlyDatesOfTheCollateralBeginAGrace(t *testing.T) {
	replaced := time.Date(2025, 8, 13, 0, 0, 0, 0, time.UTC)
	j := newJudge(t, nil)
	newer := func(doc any, date string) {
		levels := doc.(map[string]any)["tcbLevels"].([]any)
		levels[0].(map[string]any)["tcbStatus"] = "OutOfDate"
		doc.(map[string]any)["tcbLevels"] = append([]any{map[string]any{"tcb": map[string]any{"isvsvn": 200}, "tcbDate": date, "tcbStatus": "UpToDate"}}, levels...)
	}
	for name, c := range map[string]struct {
		posture attestsim.Posture
		status  string
		want    time.Time
	}{
		"up to date":      {attestsim.Posture{}, "UpToDate", time.Time{}},
		"replaced":        {attestsim.Posture{Replaced: replaced}, "OutOfDate", replaced},
		"no newer level":  {attestsim.Posture{Platform: "OutOfDate"}, "OutOfDate", time.Time{}},
		"hardening too":   {attestsim.Posture{Replaced: replaced, QE: "SWHardeningNeeded"}, "OutOfDate", time.Time{}},
		"hardening alone": {attestsim.Posture{Replaced: replaced, Platform: "SWHardeningNeeded"}, "SWHardeningNeeded", time.Time{}},
		"the module earlier": {attestsim.Posture{Replaced: replaced, Edit: func(tcb, _ map[string]any) {
			newer(tcb["tdxModuleIdentities"].([]any)[0], "2025-05-01T00:00:00Z")
		}}, "OutOfDate", time.Date(2025, 5, 1, 0, 0, 0, 0, time.UTC)},
		"the module later": {attestsim.Posture{Replaced: replaced, Edit: func(tcb, _ map[string]any) {
			newer(tcb["tdxModuleIdentities"].([]any)[0], "2025-09-01T00:00:00Z")
		}}, "OutOfDate", replaced},
		"the enclave alone": {attestsim.Posture{Edit: func(_, qe map[string]any) {
			newer(qe, "2025-06-01T00:00:00Z")
		}}, "OutOfDate", time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)},
		"the machine's level has no date": {attestsim.Posture{Replaced: replaced, Edit: func(tcb, _ map[string]any) {
			delete(tcb["tcbLevels"].([]any)[1].(map[string]any), "tcbDate")
		}}, "OutOfDate", time.Time{}},
	} {
		j.posture = c.posture
		tcb, err := j.judge(t)
		if err != nil || tcb.Status != c.status || !tcb.ReplacedAt.Equal(c.want) {
			t.Errorf("%s: %+v, error %v; want %s, replaced %s", name, tcb, err, c.status, c.want)
		}
	}
}

// TestATT04_ANewEvaluationWarnsBeforeItEndsAHealthyCluster is the drill: the manufacturer publishes a
// new evaluation while machines run. They are admitted with a date, until that date and not after it;
// an update before it makes them UpToDate.
func TestATT04_ANewEvaluationWarnsBeforeItEndsAHealthyCluster(t *testing.T) {
	j := newJudge(t, nil)
	start, day := j.now, 24*time.Hour
	p := policy.TCBPolicy{GraceDays: 425}
	j.posture.Evaluation = 19
	appraise := func() (policy.Decision, time.Time) {
		tcb, err := j.judge(t)
		if err != nil {
			t.Fatal(err)
		}
		return policy.AppraiseTCB(p, tcb, j.now), p.ToleratedUntil(tcb, j.now)
	}
	if d, ends := appraise(); !d.Allowed || !ends.IsZero() {
		t.Fatalf("before: %+v, ends %s", d, ends)
	}
	// The newer level is a year old on the day that the standard collateral asks for it.
	replaced := start.Add(2 * day).Add(-365 * day)
	ends := replaced.Add(425 * day)
	for _, at := range []time.Duration{2 * day, 30 * day, 62*day - time.Second, 62 * day, 63 * day} {
		j.now = start.Add(at)
		allowed := j.now.Before(ends)
		j.posture = attestsim.Posture{Evaluation: 20, Replaced: replaced, Advisories: []string{"INTEL-SA-01192"}}
		d, until := appraise()
		if d.Allowed != allowed || allowed && !until.Equal(ends) || !allowed && (!until.IsZero() || d.Code != policy.CodeTCBOutOfDate) {
			t.Errorf("%s after the start: %+v, ends %s, want %t until %s", at, d, until, allowed, ends)
		}
	}
	j.posture = attestsim.Posture{Evaluation: 20} // the hosts were updated
	if d, until := appraise(); !d.Allowed || !until.IsZero() {
		t.Errorf("after the update: %+v, ends %s", d, until)
	}
}

// TestATT05_ACacheThatLagsDoesNotEndAdmissions: the last accepted collateral is used while it is in
// date, and older collateral never.
func TestATT05_ACacheThatLagsDoesNotEndAdmissions(t *testing.T) {
	j := newJudge(t, nil)
	start := j.now
	for _, step := range []struct {
		name       string
		after      time.Duration
		evaluation uint32
		used       uint32
		want       policy.Code
	}{
		{"newest", 0, 20, 20, ""},
		{"a cache lags", time.Hour, 19, 20, ""},
		{"and lags on", 29 * 24 * time.Hour, 19, 20, ""},
		{"until the newer document ended", 31 * 24 * time.Hour, 19, 19, ""},
		{"an even older one", 31*24*time.Hour + time.Hour, 18, 19, ""},
		{"it caught up", 32 * 24 * time.Hour, 20, 20, ""},
	} {
		j.now, j.posture.Evaluation = start.Add(step.after), step.evaluation
		tcb, err := j.judge(t)
		wantCode(t, step.name, err, step.want)
		if tcb.EvaluationNumber != step.used {
			t.Errorf("%s: evaluation %d was used, want %d", step.name, tcb.EvaluationNumber, step.used)
		}
	}
	// Without kept collateral, the older one is rejected.
	marks := &collateral.Memory{}
	first := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = marks })
	first.posture.Evaluation = 20
	_, err := first.judge(t)
	wantCode(t, "another coordinator", err, "")
	other := newJudge(t, func(cfg *VerifierConfig) { cfg.Highest = marks })
	other.posture.Evaluation = 19
	_, err = other.judge(t)
	wantCode(t, "nothing kept", err, policy.CodeCollateralRollback)
}
