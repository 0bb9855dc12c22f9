package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestATT22_AProofIsJudgedAsItsEvidenceWouldBe, once its Instance is bound.
func TestATT22_AProofIsJudgedAsItsEvidenceWouldBe(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange)
		want Code
	}{
		"all of it":                {func(*exchange) {}, ""},
		"another text":             {func(e *exchange) { e.c.ComposeText = "other" }, CodeComposeForbidden},
		"a file that is none":      {func(e *exchange) { e.c.AppComposeProblem = "pre_launch_script" }, CodeComposeForbidden},
		"another instance":         {func(e *exchange) { e.c.InstanceID = digits("9", 40) }, CodeInstanceMismatch},
		"another hash":             {func(e *exchange) { e.c.ComposeHash = digits("9", 64) }, CodeRevisionNotAllowed},
		"the slot's group, not it": {func(e *exchange) { e.st.Slot = "db-2" }, CodeSlotMismatch},
	} {
		e := admissible()
		c.edit(&e)
		p, ok := NewProof(e.st.Group, e.st.Slot, "boot", "127.32.0.1", e.c)
		if !ok {
			t.Fatalf("%s: no proof", name)
		}
		if p.Claims.ComposeText != "" || p.Claims.AllowedEnvs != nil || p.Claims.AppComposeProblem != "" {
			t.Errorf("%s: the record has no bound: %+v", name, p.Claims)
		}
		if d := AppraiseProof(e.sp, e.ip, p, noon); d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

// TestAProofHasABound: an adoptable Boot has no longer values.
func TestAProofHasABound(t *testing.T) {
	c := admissible().c
	c.AppComposeProblem = strings.Repeat("x", 4*maxDecisionText)
	for name, one := range map[string]struct {
		envs []string
		want bool
	}{
		"none":           {nil, true},
		"as many":        {slices.Repeat([]string{"A"}, maxProofEnvs), true},
		"one more":       {slices.Repeat([]string{"A"}, maxProofEnvs+1), false},
		"as long":        {[]string{strings.Repeat("A", maxProofText)}, true},
		"a letter more":  {[]string{strings.Repeat("A", maxProofText+1)}, false},
		"only one fits":  {[]string{"A", strings.Repeat("A", maxProofText+1)}, false},
		"what fits well": {[]string{"A", "B"}, true},
	} {
		c.AllowedEnvs = one.envs
		p, ok := NewProof("db", "db-1", "boot", "", c)
		if ok != one.want || ok && !slices.Equal(p.AllowedEnvs, one.envs) {
			t.Errorf("%s: %t, %d names", name, ok, len(p.AllowedEnvs))
		}
		if len(p.AppComposeProblem) > maxDecisionText+3 || ok && p.AppComposeProblem == "" {
			t.Errorf("%s: a problem of %d bytes", name, len(p.AppComposeProblem))
		}
	}
}

// TestAProofIsTheSameOnlyIfAllOfItIs: a different proof is written again.
func TestAProofIsTheSameOnlyIfAllOfItIs(t *testing.T) {
	p, _ := NewProof("db", "db-1", "boot", "127.32.0.1", admissible().c)
	q := p
	q.At, q.By = noon, "coordinator-1"
	if !p.Same(q) {
		t.Error("who noted it, and when, makes it another one")
	}
	for _, field := range []string{"BootID", "VIP", "ComposeTextSHA256", "Claims.InstanceID", "Claims.AppID", "Claims.ComposeHash"} {
		q := p
		v := reflect.ValueOf(&q).Elem()
		for name := range strings.SplitSeq(field, ".") {
			v = v.FieldByName(name)
		}
		v.SetString("other")
		if p.Same(q) {
			t.Errorf("another %s, and it is the same", field)
		}
	}
}
