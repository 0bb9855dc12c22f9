package check

import (
	"testing"

	"cadre.dev/coordinator/simulated/cloud"
)

// cases of one Checker. In a bad run only the last event breaks the promise; in a good run no event
// does.
type cases struct {
	id        string
	bad, good []named
}

type named struct {
	name string
	run  *run
}

// registered are the cases of all Checkers.
func registered() map[string]cases {
	out := map[string]cases{}
	for _, all := range [][]cases{
		availabilityCases(), {setCases(), markCases()}, diskCases(), discoveryCases(), gateCases(), admissionCases(), fencingCases(), callCases(), monotonicCases(), restCases(), {contentCases(), drainedCases(), pausedCases(), rollbackCases(), goneCases(), approvedCases(), enteredCases()}, specCases(), {stagedCases(), bakedCases(), limitCases(), afterCases(), gatedCases(), priorityCases()}, paceCases(),
	} {
		for _, c := range all {
			out[c.id] = c
		}
	}
	return out
}

// badRuns is how many runs each Checker must reject: a check must be able to fail.
const badRuns = 3

func TestEveryCheckerHasBadRuns(t *testing.T) {
	all := registered()
	for _, c := range All() {
		if n := len(all[c.ID].bad); n < badRuns {
			t.Errorf("%s has %d bad runs, want %d: %s", c.ID, n, badRuns, c.Text)
		}
		if len(all[c.ID].good) == 0 {
			t.Errorf("%s has no good run near the bad ones", c.ID)
		}
		delete(all, c.ID)
	}
	for id := range all {
		t.Errorf("there are cases of %s, and no such Checker", id)
	}
}

func TestCheckers(t *testing.T) {
	all := registered()
	for _, c := range All() {
		for _, bad := range all[c.ID].bad {
			t.Run(c.ID+"/bad/"+bad.name, func(t *testing.T) {
				found, last := c.Check(bad.run.t), len(bad.run.t)-1
				if len(found) == 0 {
					t.Fatalf("accepted:\n%s", bad.run.t)
				}
				for _, v := range found {
					if v.At != last || v.Message == "" {
						t.Errorf("finds %v, want one at the last event, %d:\n%s", v, last, bad.run.t)
					}
				}
			})
		}
		for _, good := range all[c.ID].good {
			t.Run(c.ID+"/good/"+good.name, func(t *testing.T) {
				if found := c.Check(good.run.t); len(found) > 0 {
					t.Errorf("finds %v:\n%s", found, good.run.t)
				}
			})
		}
	}
}

func TestRunNamesAndSorts(t *testing.T) {
	r := start().spec("etcd", 3, maxUnavailable(2)).entered("groups/pg/accepted").members("pg-0", "pg-1", "pg-2").
		phases("a", "pg-0", "DRAINING").phases("b", "pg-1", "DRAINING").called(cloud.Delete, "pg-2")
	found := Run(r.t)
	var ids []string
	for i, v := range found {
		if i > 0 && v.At < found[i-1].At {
			t.Errorf("%v comes after %v", v, found[i-1])
		}
		ids = append(ids, v.ID)
	}
	want := []string{"I2", "I23", "I18"}
	if len(ids) != len(want) {
		t.Fatalf("finds %v, want %v", found, want)
	}
	for i := range want {
		if ids[i] != want[i] {
			t.Errorf("finds %v, want %v", ids, want)
		}
	}
}

func TestCheckersAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if c.ID == "" || c.Text == "" || c.Check == nil || seen[c.ID] {
			t.Errorf("%q is not a checker of its own", c.ID)
		}
		seen[c.ID] = true
	}
}

func TestAViolationIsLikeAnother(t *testing.T) {
	of := func(id, message string) Violation { return Violation{ID: id, Message: message} }
	first := of("I1", "pg-1-b8bf7b2c.2.pg-1 takes pg-1 away while pg-0 is away: max_unavailable is 1")
	for _, c := range []struct {
		other Violation
		want  bool
	}{
		{first, true},
		{of("I1", "kv-2-aaaa1111.3.kv-2 takes kv-2 away while kv-0 is away: max_unavailable is 2"), true},
		{of("I1", "pg-1-b8bf7b2c.2.pg-1 takes pg-1 away while nobody is away: max_unavailable is 1"), false},
		{of("I2", "pg-1-b8bf7b2c.2.pg-1 takes pg-1 away while pg-0 is away: max_unavailable is 1"), false},
	} {
		if got := first.Like(c.other); got != c.want {
			t.Errorf("like %q: %t, want %t", c.other.Message, got, c.want)
		}
	}
}
