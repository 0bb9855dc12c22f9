package rollout

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// TestR141_EachHoldIsInOneList: a new hold is either overridable, with its risk, or not, with the reason.
func TestR141_EachHoldIsInOneList(t *testing.T) {
	source, err := os.ReadFile("holdnames.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\tHold\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		all[m[1]] = true
		_, can := overridable[m[1]]
		why, cannot := notOverridable[m[1]]
		if can == cannot {
			t.Errorf("%s: overridable %t, not overridable %t: want exactly one", m[1], can, cannot)
		}
		if cannot && why == "" {
			t.Errorf("%s: the list does not say why it cannot be overridden", m[1])
		}
	}
	for _, list := range []map[string]string{overridable, notOverridable} {
		for name := range list {
			if !all[name] {
				t.Errorf("%s is in a list and is no hold", name)
			}
		}
	}
}

// TestR141_TheGuideListsTheHolds that can be overridden, and marks the holds with a risk.
func TestR141_TheGuideListsTheHolds(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guides/control.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## An override of a hold")
	section, _, _ = strings.Cut(section, "\n## ")
	risky := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*)\\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			risky[name[1]] = strings.Contains(row[1], "*")
		}
	}
	for name, risk := range overridable {
		if marked, listed := risky[name]; !listed || marked != (risk != "") {
			t.Errorf("%s: listed %t, with a risk %t", name, listed, marked)
		}
	}
	if len(risky) != len(overridable) {
		t.Errorf("the guide lists %d holds, the code %d", len(risky), len(overridable))
	}
}

// TestR141_NoOverrideReachesAdmissionOrIdentity: these holds stay out of the list.
func TestR141_NoOverrideReachesAdmissionOrIdentity(t *testing.T) {
	for _, never := range []string{HoldNotApproved, HoldBelowFloor, HoldRevoked, HoldSecretNoValue, HoldCallUndecided, HoldDuplicate, HoldReplaced, HoldUnmanagedInstance,
		HoldInstanceMissing, HoldPrecondition, HoldIncomplete, HoldAppID, HoldQuorum, HoldQuorumUnknown, HoldDeleteDisks, HoldPreservedState, HoldProtected, HoldDrained, HoldFrozen, HoldPaused} {
		if slices.Contains(Overridable(), never) {
			t.Errorf("%s can be overridden", never)
		}
	}
}

func TestR142_ProblemsOfAnOverrideAreReportedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		r    HoldOverrideRequest
		want string // paths
	}{
		"good":                  {HoldOverrideRequest{Group: "web", Hold: HoldStepDelay, Reason: "now", For: time.Hour}, ""},
		"good with a risk":      {HoldOverrideRequest{Group: "web", Hold: HoldMayDisrupt, Reason: "now", For: 24 * time.Hour, Confirm: "web"}, ""},
		"everything is missing": {HoldOverrideRequest{Group: "web"}, "hold reason for"},
		"never":                 {HoldOverrideRequest{Group: "web", Hold: HoldNotApproved, Reason: " ", For: 25 * time.Hour}, "hold reason for"},
		"no confirmation":       {HoldOverrideRequest{Group: "web", Hold: HoldMaxUnavailable, For: -time.Second}, "reason for confirm"},
		"another group":         {HoldOverrideRequest{Group: "web", Hold: HoldVoterCap, Reason: "now", For: time.Hour, Confirm: "db"}, "confirm"},
		"a needless one":        {HoldOverrideRequest{Group: "web", Hold: HoldBackoff, Reason: "now", For: time.Hour, Confirm: "web"}, "confirm"},
	} {
		var paths []string
		for _, p := range c.r.Problems() {
			paths = append(paths, p.Path)
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%s: problems of %q, want %q", name, got, c.want)
		}
	}
	if p := (HoldOverrideRequest{Group: "web", Hold: HoldBelowFloor, Reason: "now", For: time.Hour}).Problems(); len(p) != 1 || !strings.Contains(p[0].Message, "a floor never falls") {
		t.Errorf("the answer does not say why: %v", p)
	}
}

func TestR141_AnOverrideBelongsToItsRollout(t *testing.T) {
	for state, want := range map[operation.RolloutState]string{
		operation.Running: "r", operation.PausedState: "r", operation.FailedState: "r",
		operation.Complete: "", operation.PartitionReached: "", operation.SupersededState: "",
	} {
		if got := CurrentRollout(&operation.Rollout{ID: "r", State: state}); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	in := func(o Override) bool {
		w := &world{now: now, rollout: &operation.Rollout{ID: "r", State: operation.Running}}
		w.obs.HoldOverrides = map[string]*Override{HoldStepDelay: &o}
		return w.overrideOf(HoldStepDelay) != nil
	}
	for name, c := range map[string]struct {
		o    Override
		want bool
	}{
		"its rollout":       {Override{Rollout: "r", Until: now.Add(time.Second)}, true},
		"at its end":        {Override{Rollout: "r", Until: now}, false},
		"without an end":    {Override{Rollout: "r"}, false},
		"another rollout":   {Override{Rollout: "q", Until: now.Add(time.Hour)}, false},
		"without a rollout": {Override{Until: now.Add(time.Hour)}, false},
	} {
		if got := in(c.o); got != c.want {
			t.Errorf("%s: in force %t, want %t", name, got, c.want)
		}
	}
}

// TestR141_TheOperationRecordsWhatItPassed: a plan without an override leaves the record as it was.
func TestR141_TheOperationRecordsWhatItPassed(t *testing.T) {
	passed := []operation.Overridden{{Hold: HoldStepDelay, By: "ann", Reason: "now"}}
	p := Plan{Group: "web", Rollout: &operation.Rollout{ID: "r"}}
	op, ok := p.Begin(Action{Slot: "web-0", Kind: operation.Update, Execute: true, Overridden: passed}, 1, time.Now())
	if !ok || !slices.Equal(op.Overridden, passed) {
		t.Errorf("the operation records %v", op.Overridden)
	}
}
