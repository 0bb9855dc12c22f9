package control

import (
	"errors"
	"log/slog"
	"testing"

	"cadre.dev/agent/internal/durable"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestDesiredStateOfOlderRecordsIsNotObeyed: the agent rejects an older Term and an older state,
// with any version.
func TestDesiredStateOfOlderRecordsIsNotObeyed(t *testing.T) {
	h := newHub(t, t.TempDir())
	for _, c := range []struct {
		why                  string
		term, state, version uint64
		older                bool
		want                 uint64 // version that is in force after it
		reported             uint64 // state
	}{
		{"the first", 3, 10, 100, false, 100, 10},
		{"a restored backup of the same term", 3, 9, 120, true, 100, 10},
		{"an older version of records that have grown", 3, 12, 90, false, 100, 12},
		{"the last seen state counts", 3, 11, 130, true, 100, 12},
		{"a coordinator of an earlier version has none", 3, 0, 140, false, 140, 12},
		{"an older term, however far it says to be", 2, 1000, 1000, true, 140, 12},
		{"a leader that began above the seen state", 4, 20, 5, false, 5, 20},
		{"a backup that a higher term took over from", 5, 7, 2, true, 5, 20},
		{"an earlier version does not let the state fall", 5, 0, 2, false, 2, 20},
		{"a recovered store", 6, 21, 1, false, 1, 21},
		{"the leader before it", 4, 22, 6, true, 1, 21},
	} {
		err := h.acceptDesired(from, &controlv1.Desired{Term: c.term, State: c.state, Version: c.version})
		if errors.Is(err, errOlder) != c.older || err != nil && !c.older {
			t.Errorf("%s: %v, older %t", c.why, err, c.older)
		}
		now, _ := h.Desired().Get()
		if r := reported(h); now.GetVersion() != c.want || r.GetState() != c.reported {
			t.Errorf("%s: version %d in force, state %d reported, want %d and %d", c.why, now.GetVersion(), r.GetState(), c.want, c.reported)
		}
	}
}

// TestTheStateSurvivesAReboot: with the Term that it is of.
func TestTheStateSurvivesAReboot(t *testing.T) {
	dir := t.TempDir()
	take(t, newHub(t, dir), &controlv1.Desired{Term: 7, State: 30, Version: 1})
	h := newHub(t, dir)
	if r := reported(h); r.GetTerm() != 7 || r.GetState() != 30 {
		t.Errorf("after a reboot term %d, state %d", r.GetTerm(), r.GetState())
	}
	if err := h.acceptDesired(from, &controlv1.Desired{Term: 7, State: 29, Version: 100}); !errors.Is(err, errOlder) {
		t.Errorf("an older state after a reboot: %v", err)
	}
	take(t, h, &controlv1.Desired{Term: 7, State: 30, Version: 1})
}

// TestAStateThatOnlyGrowsIsWrittenNowAndThen: a cluster in which much happens must not
// make every agent's disk busy.
func TestAStateThatOnlyGrowsIsWrittenNowAndThen(t *testing.T) {
	dir := t.TempDir()
	h := newHub(t, dir)
	take(t, h, &controlv1.Desired{Term: 7, State: 30, Version: 1})
	for state := uint64(31); state < 100; state++ {
		take(t, h, &controlv1.Desired{Term: 7, State: state, Version: 1})
	}
	if got := reported(h).GetState(); got != 99 {
		t.Errorf("state %d is reported, want the highest", got)
	}
	var kept mark
	if _, err := durable.OpenDisk(dir, slog.New(slog.DiscardHandler)).Read(termName, 4096, &kept); err != nil || kept != (mark{7, 30}) {
		t.Errorf("on the disk is %+v, %v", kept, err)
	}
}

// reported is the agent's present report.
func reported(h *Hub) *controlv1.Report {
	h.makeReport(true)
	next, _ := h.reports.Get()
	return next.report
}
