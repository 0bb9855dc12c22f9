package attest

import (
	"context"
	"errors"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// Bad collateral of one source does not hide the next source's, and used collateral has passed
// every check.
func TestATT06_UselessCollateralDoesNotHideTheNext(t *testing.T) {
	type posture = attestsim.Posture
	for name, c := range map[string]struct {
		first func(*collateral.Bundle) // of number 18
		age   time.Duration
		want  policy.Code
	}{
		"damaged":     {first: func(b *collateral.Bundle) { b.PCKCRL[len(b.PCKCRL)-1] ^= 1 }},
		"rubbish":     {first: func(b *collateral.Bundle) { b.TCBInfo = "x" }},
		"ended":       {age: 40 * 24 * time.Hour},
		"too old":     {age: 8 * 24 * time.Hour},
		"replayed":    {first: func(b *collateral.Bundle) {}},
		"ahead of us": {age: -time.Hour, want: policy.CodeClockUntrusted},
	} {
		marks := &collateral.Memory{}
		var accepted []*collateral.Set
		j := newJudge(t, nil)
		first, err1 := j.cloud.Collateral(j.now, posture{Evaluation: 18, Age: c.age})
		next, err2 := j.cloud.Collateral(j.now, posture{Evaluation: 19})
		if err := errors.Join(err1, err2, marks.Raise(context.Background(), policy.CollateralWatermark{FMSPC: attestsim.FMSPC(), TCBEvaluation: 19, QEEvaluation: 19})); err != nil {
			t.Fatal(err)
		}
		if c.first != nil {
			c.first(&first)
		}
		sources := collateral.Sources{collateral.Static{}, collateral.Static{attestsim.FMSPC(): first}, collateral.Static{attestsim.FMSPC(): next}}
		var err error
		j.v, err = NewVerifier(VerifierConfig{
			RootsPEM: j.cloud.RootPEM(), Collateral: sources, Highest: marks, MaxCollateralAge: 7 * 24 * time.Hour,
			Accepted: func(s *collateral.Set) { accepted = append(accepted, s) }, Now: func() time.Time { return j.now },
		})
		if err != nil {
			t.Fatal(err)
		}
		tcb, err := j.judge(t)
		wantCode(t, name, err, c.want)
		if err == nil && (tcb.EvaluationNumber != 19 || len(accepted) != 1 || accepted[0].Mark().TCBEvaluation != 19) {
			t.Errorf("%s: number %d, accepted %v", name, tcb.EvaluationNumber, accepted)
		}
		if err != nil && len(accepted) != 0 {
			t.Errorf("%s: accepted %v", name, accepted)
		}
	}
}

// Of several reasons the most informative one is returned.
func TestWhyNoCollateralCanBeUsed(t *testing.T) {
	j := newJudge(t, nil)
	ended, err := j.cloud.Collateral(j.now, attestsim.Posture{Age: 40 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	none, old := collateral.Static{}, collateral.Static{attestsim.FMSPC(): ended}
	for name, c := range map[string]struct {
		sources collateral.Sources
		want    policy.Code
	}{
		"one has none":       {collateral.Sources{none}, policy.CodeCollateralUnavailable},
		"none has any":       {collateral.Sources{none, none}, policy.CodeCollateralUnavailable},
		"expired collateral": {collateral.Sources{none, old, none}, policy.CodeCollateralExpired},
		"it alone, by name":  {collateral.Sources{old}, policy.CodeCollateralExpired},
	} {
		if j.v, err = NewVerifier(VerifierConfig{RootsPEM: j.cloud.RootPEM(), Collateral: c.sources, Now: simNow}); err != nil {
			t.Fatal(err)
		}
		_, err := j.judge(t)
		wantCode(t, name, err, c.want)
	}
}
