package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR125_ASilentFollowerIsNotHealed: a silent member is not healed while the leader sees the member following. The
// platform's report about its CVM takes precedence, and only the leader's list of followers counts.
func TestR125_ASilentFollowerIsNotHealed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string // the step begun for db-2; "": held as follower_by_leader; "-": no step is planned
	}{
		"it is seen following":     {func(*fixture) {}, ""},
		"nobody sees it following": {func(f *fixture) { f.obs.Slots[0].Report.Followers = []string{"db-1"} }, "RESTART db-2"},
		"one that does not lead says so": {func(f *fixture) {
			f.obs.Slots[0].Report.Followers, f.obs.Slots[1].Report.Followers = nil, []string{"db-2"}
		}, "RESTART db-2"},
		"its CVM is stopped":               {func(f *fixture) { f.obs.Slots[2].Instance.Status = "stopped" }, "RESTART db-2"},
		"an operator asks for it":          {func(f *fixture) { f.asks("db-2", "q") }, "RESTART db-2"},
		"a listing lacks its CVM, too":     {func(f *fixture) { f.obs.Slots[2].Instance = nil }, "-"},
		"a listing lacks it, and it is so": {func(f *fixture) { f.obs.Slots[2].Instance, f.obs.Slots[0].Report.Followers = nil, nil }, "REPLACE db-2"},
	} {
		f := newFixture(3, "patroni")
		f.spec.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAuto}
		f.spec.Normalize()
		f.silent(2, f.now.Add(-time.Hour))
		f.obs.Slots[0].Report.Followers = []string{"db-1", "db-2"}
		f.rec.Slots[2].MissedSince = f.now.Add(-time.Minute)
		c.edit(f)
		p := f.plan()
		got := executes(p)
		switch {
		case c.want == "":
			wantHeld(t, p, "db-2", HoldFollowerByLeader)
		case c.want == "-":
			if len(got) != 0 || hasAction(p, "db-2") && actionOf(t, p, "db-2").Kind == operation.Replace {
				t.Errorf("%s: %s", name, describe(p))
			}
		case len(got) != 1 || got[0] != c.want:
			t.Errorf("%s: begins %v, want %s\n%s", name, got, c.want, describe(p))
		}
	}
}
