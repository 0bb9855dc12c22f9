package attest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// earlyJudge is a judge that asks a service over HTTP, which also has an early set.
func earlyJudge(t *testing.T, wrap func(http.Handler) http.Handler) (*judge, *attestsim.PCCS, *collateral.Memory) {
	t.Helper()
	marks := &collateral.Memory{}
	j := newJudge(t, nil)
	sim := j.cloud.NewPCCS(func() time.Time { return j.now })
	server := httptest.NewServer(wrap(sim))
	t.Cleanup(server.Close)
	pccs, err := collateral.NewPCCS(collateral.PCCSConfig{URL: server.URL, Now: func() time.Time { return j.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pccs.Close)
	j.v, err = NewVerifier(VerifierConfig{RootsPEM: j.cloud.RootPEM(), Collateral: pccs, Highest: marks, Now: func() time.Time { return j.now }})
	if err != nil {
		t.Fatal(err)
	}
	return j, sim, marks
}

func asIs(h http.Handler) http.Handler { return h }

// TestATT04_TheEarlySetWarnsAndDecidesNothing: a machine that is out of date only in the early set
// is admitted as before. The claim has the approximate date on which the standard set follows, and
// the early number binds nothing.
func TestATT04_TheEarlySetWarnsAndDecidesNothing(t *testing.T) {
	type p = attestsim.Posture
	replaced := simNow().Add(-300 * 24 * time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		posture p
		status  string
		want    policy.Outlook
	}{
		"no early set":                {p{}, "UpToDate", policy.Outlook{}},
		"the same in both":            {p{Early: &p{Evaluation: 18}}, "UpToDate", policy.Outlook{}},
		"a newer level":               {p{Early: &p{Evaluation: 18, Replaced: replaced}}, "UpToDate", policy.Outlook{Falls: true, At: replaced.Add(365 * 24 * time.Hour)}},
		"without a signed date":       {p{Early: &p{Evaluation: 18, Replaced: replaced, Platform: "OutOfDateConfigurationNeeded"}}, "UpToDate", policy.Outlook{Falls: true}},
		"of a lower number":           {p{Early: &p{Evaluation: 16, Replaced: replaced}}, "UpToDate", policy.Outlook{}},
		"out of date in both already": {p{Replaced: replaced, Early: &p{Evaluation: 18, Replaced: replaced}}, "OutOfDate", policy.Outlook{}},
		"ended":                       {p{Early: &p{Evaluation: 18, Replaced: replaced, Age: 40 * 24 * time.Hour}}, "UpToDate", policy.Outlook{}},
		"revoked under the early set": {p{Early: &p{Evaluation: 18, Platform: "Revoked"}}, "UpToDate", policy.Outlook{Falls: true}},
	} {
		j, sim, marks := earlyJudge(t, asIs)
		sim.Set(c.posture)
		tcb, err := j.judge(t)
		if err != nil || tcb.Status != c.status || tcb.Outlook() != c.want {
			t.Errorf("%s: %+v, outlook %+v, %v; want %s, %+v", name, tcb, tcb.Outlook(), err, c.status, c.want)
		}
		if mark, err := marks.Get(t.Context(), attestsim.FMSPC()); err != nil || mark.TCBEvaluation != 17 || mark.QEEvaluation != 17 {
			t.Errorf("%s: the early set raised the mark: %+v, %v", name, mark, err)
		}
		// The early number is in no verdict: the same standard set is admitted again.
		if again, err := j.judge(t); err != nil || again.Status != c.status {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
	}
}

// TestATT28_AHangingEarlySetDelaysNothing: a hanging request for the early set never delays the
// standard set, and delays one admission by a moment.
func TestATT28_AHangingEarlySetDelaysNothing(t *testing.T) {
	asked, end := make(chan struct{}, 8), make(chan struct{})
	defer close(end)
	j, _, _ := earlyJudge(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("update") == "early" {
				asked <- struct{}{}
				select {
				case <-end:
				case <-r.Context().Done():
				}
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	claims, err := j.v.Verify(ctx, j.evidence(t), j.report.ReportData)
	if err != nil || claims.TCB.Status != "UpToDate" || claims.TCB.Early != (policy.EarlyTCB{}) {
		t.Errorf("%+v, %v", claims.TCB, err)
	}
	<-asked
}

// TestRealEvaluationsForetellTheNext reads Intel's signed evaluation 20 as the early set under
// evaluation 19. It foretells the day on which the same machine was out of date.
func TestRealEvaluationsForetellTheNext(t *testing.T) {
	standard, _ := published(t, "b0c06f_2026-08-11_eval19")
	early, _ := published(t, "b0c06f_2026-08-13_eval20")
	var ev struct {
		Quote string `json:"quote"`
	}
	if err := json.Unmarshal(evidenceFile(t, "evidence", "near-mpc-71e4107554.json"), &ev); err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(ev.Quote)
	if err != nil {
		t.Fatal(err)
	}
	quote, err := parseQuote(raw)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(VerifierConfig{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := v.chainOf(quote)
	if err != nil {
		t.Fatal(err)
	}
	m := machineOf(quote, chain)
	now, err := standard.Evaluate(m)
	if err != nil {
		t.Fatal(err)
	}
	next, err := early.Evaluate(m)
	if err != nil {
		t.Fatal(err)
	}
	now.Early = policy.EarlyTCB{Status: next.Status, EvaluationNumber: next.EvaluationNumber, ReplacedAt: next.ReplacedAt}
	changed := time.Date(2026, 8, 13, 0, 0, 0, 0, time.UTC)
	if got := now.Outlook(); now.Status != "UpToDate" || !got.Falls || !got.At.Equal(changed) {
		t.Errorf("status %s, outlook %+v; the standard set followed on %s", now.Status, got, changed)
	}
}
