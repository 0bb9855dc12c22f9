package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR139_AnOverrideShowsItsAuthorReasonAndEnd: the text of an override has all known parts, and the override ends at
// its time.
func TestR139_AnOverrideShowsItsAuthorReasonAndEnd(t *testing.T) {
	for want, k := range map[string]Override{
		"": {}, " (ann)": {By: "ann"}, ": memory": {Reason: "memory"}, ", until 2026-01-02T03:04:05Z": {Until: epoch},
		" (ann): memory, until 2026-01-02T03:04:05Z": {By: "ann", Reason: "memory", Until: epoch},
	} {
		if got := k.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if (Override{}).scope() != "" || (Override{Group: "db"}).scope() != " db" {
		t.Error("what lifts a freeze")
	}
	k := &Override{Until: epoch}
	if k.ended(epoch.Add(-1)) || !k.ended(epoch) || (&Override{}).ended(epoch) || (*Override)(nil).ended(epoch) {
		t.Error("when an override ends")
	}
	if (*Override)(nil).status() != nil || k.status().Until != epoch {
		t.Error("what the status tells of it")
	}
	// Expired overrides are dropped in the same pass, and valid overrides stay.
	f := newFixture(3, "none")
	f.obs.Freeze = &Override{Until: f.now}
	f.obs.Slots[0].Drain, f.obs.Slots[1].Protection, f.obs.Slots[2].Protection = &Override{Until: f.now}, &Override{Until: f.now}, &Override{Until: f.now.Add(1)}
	w := seenBy(f)
	if w.obs.Freeze != nil || w.find("db-0").drained() || w.find("db-1").keptByHand() || !w.find("db-2").keptByHand() {
		t.Errorf("freeze %+v", w.obs.Freeze)
	}
}

// TestR10_WhichReportCounts: a report counts unless it is older than the limit or from the future.
func TestR10_WhichReportCounts(t *testing.T) {
	w := &world{now: epoch, t: DefaultTiming()}
	for age, want := range map[time.Duration]bool{0: true, w.t.StaleAfter: true, w.t.StaleAfter + 1: false, -operation.LiveWithin: true, -operation.LiveWithin - 1: false} {
		if got := w.fresh(&Report{ReceivedAt: epoch.Add(-age)}); got != want {
			t.Errorf("%s old: %t", age, got)
		}
	}
}

// TestR8_HealthIsUnbrokenByTheAgentsClock: health is unbroken by the agent's clock or, without the agent's clock, since
// the last pass.
func TestR8_HealthIsUnbrokenByTheAgentsClock(t *testing.T) {
	since := epoch.Add(-time.Hour)
	for name, c := range map[string]struct {
		r      Report
		looked time.Time
		want   bool
	}{
		"healthy since":                    {Report{ReceivedAt: epoch, HealthyFor: time.Hour}, time.Time{}, true},
		"within the slack":                 {Report{ReceivedAt: epoch, HealthyFor: time.Hour - gapSlack}, time.Time{}, true},
		"a break":                          {Report{ReceivedAt: epoch, HealthyFor: time.Hour - gapSlack - 1}, time.Time{}, false},
		"booted since":                     {Report{ReceivedAt: epoch, HealthyFor: time.Hour, BootAt: since.Add(gapSlack + 1)}, time.Time{}, false},
		"booted at that moment":            {Report{ReceivedAt: epoch, HealthyFor: time.Hour, BootAt: since.Add(gapSlack)}, time.Time{}, true},
		"booted in the future":             {Report{ReceivedAt: epoch, HealthyFor: time.Hour, BootAt: epoch.Add(1)}, time.Time{}, true},
		"tells no time":                    {Report{ReceivedAt: epoch}, epoch.Add(-15 * time.Second), true},
		"tells no time, and nobody looked": {Report{ReceivedAt: epoch}, epoch.Add(-15*time.Second - 1), false},
		"tells no time, the first look":    {Report{ReceivedAt: epoch}, time.Time{}, true},
	} {
		w := &world{now: epoch, t: DefaultTiming()}
		w.rec.Status.At = c.looked
		if got := w.unbroken(&member{record: group.SlotRecord{AvailableSince: since}, report: &c.r}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestR53_TheMostAdvancedLogComesFirst, and a member without a report of its log last.
func TestR53_TheMostAdvancedLogComesFirst(t *testing.T) {
	at := func(epoch uint64, lag int64) *member {
		r := &Report{SetView: SetView{Epoch: epoch}}
		if lag >= 0 {
			r.LagBytes = &lag
		}
		return &member{report: r}
	}
	order := []*member{at(6, 9), at(5, 0), at(5, 7), at(5, -1), at(0, 0)}
	for i, a := range order {
		for j, b := range order {
			if got := compareLogs(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%d against %d: %d", i, j, got)
			}
		}
	}
	if compareLogs(at(0, 1), &member{}) != 0 || compareLogs(&member{}, at(1, 0)) != 1 {
		t.Error("who tells nothing")
	}
}

// TestR31_WhenSilenceBreaks: the time runs from when the Slot was unavailable, or from when most agents reported.
func TestR31_WhenSilenceBreaks(t *testing.T) {
	away, heard := epoch, epoch.Add(time.Minute)
	for name, c := range map[string]struct {
		m    member
		want time.Time
	}{
		"it speaks":            {member{report: &Report{}, record: group.SlotRecord{UnavailableSince: away}}, time.Time{}},
		"it is not away":       {member{}, time.Time{}},
		"silent":               {member{record: group.SlotRecord{UnavailableSince: away}}, away.Add(5 * time.Minute)},
		"silent with the rest": {member{record: group.SlotRecord{UnavailableSince: away, SilenceFrom: heard}}, heard.Add(5 * time.Minute)},
		"named by a person":    {member{request: &Request{}, record: group.SlotRecord{UnavailableSince: away, SilenceFrom: heard}}, away.Add(5 * time.Minute)},
		"in a step by hand":    {member{open: &operation.Operation{Request: operation.Request{ID: "q"}}, record: group.SlotRecord{UnavailableSince: away, SilenceFrom: heard}}, away.Add(5 * time.Minute)},
		"in another step":      {member{open: &operation.Operation{}, record: group.SlotRecord{UnavailableSince: away, SilenceFrom: heard}}, heard.Add(5 * time.Minute)},
	} {
		if got := (&world{t: DefaultTiming()}).lostAt(&c.m); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestR53_AnUpdatedMemberTakesOverFirst: updated members precede the others, extra members come last, and the log and
// the ordinal order the rest.
func TestR53_AnUpdatedMemberTakesOverFirst(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"all at the target": {func(*fixture) {}, "db-1 db-2 db-3"},
		"one is behind":     {func(f *fixture) { f.lagging(1, 9) }, "db-2 db-3"},
		"one is less advanced": {func(f *fixture) {
			lag := int64(9)
			f.obs.Slots[1].Report.LagBytes = &lag
			f.obs.Slots[2].Report.LagBytes = new(int64)
			f.obs.Slots[3].Report.LagBytes = new(int64)
		}, "db-2 db-3 db-1"},
		"one learns":         {func(f *fixture) { f.obs.Slots[3].Report.Role = RoleLearner }, "db-1 db-2"},
		"one is away":        {func(f *fixture) { f.sick(2) }, "db-1 db-3"},
		"one is not updated": {func(f *fixture) { f.at(2, "A") }, "db-1 db-3"},
		"one is kept where it is": {func(f *fixture) {
			f.at(1, "A")
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromRollout: true}}
		}, "db-2 db-3 db-1"},
	} {
		f := newFixture(4, "patroni").want("B")
		for i := range 4 {
			f.at(i, "B")
		}
		f.at(0, "A")
		c.edit(f)
		w := seenBy(f)
		got, interim := w.transferCandidates(candidate{m: w.find("db-0"), kind: operation.Update, condition: well})
		if strings.Join(got, " ") != c.want || interim {
			t.Errorf("%s: %v, interim %t", name, got, interim)
		}
	}
}

// TestR53_WhichTransferCounts: the planned transfer of an update counts, for any outcome of its step.
func TestR53_WhichTransferCounts(t *testing.T) {
	made := operation.Transfer{Made: true}
	for name, c := range map[string]struct {
		edit func(*operation.Operation)
		want int
	}{
		"made":              {func(*operation.Operation) {}, 1},
		"not made":          {func(op *operation.Operation) { op.Transfer = &operation.Transfer{} }, 0},
		"none":              {func(op *operation.Operation) { op.Transfer = nil }, 0},
		"of a restart":      {func(op *operation.Operation) { op.Kind = operation.Restart }, 0},
		"for its env":       {func(op *operation.Operation) { op.Way.Mode = operation.ModeOwn }, 0},
		"to repair it":      {func(op *operation.Operation) { op.Transfer = &operation.Transfer{Made: true, Relief: true} }, 0},
		"to who goes":       {func(op *operation.Operation) { op.Transfer = &operation.Transfer{Made: true, Interim: true} }, 0},
		"another rollout's": {func(op *operation.Operation) { op.Rollout = "another" }, 0},
	} {
		for _, phase := range []operation.Phase{operation.Booting, operation.Done} {
			f := newFixture(3, "patroni").want("B").rolling().op(2, phase, func(op *operation.Operation) {
				op.Transfer = &made
				c.edit(op)
			})
			if got := seenBy(f).transfersMade(); got != c.want {
				t.Errorf("%s, %s: %d", name, phase, got)
			}
		}
	}
	f := newFixture(3, "patroni").want("B").rolling()
	f.rec.Rollout.Transfers = 1
	if got := seenBy(f).transfersMade(); got != 1 {
		t.Errorf("swept: %d", got)
	}
}

// TestR88_ArrivalsAndReopeningsMoveTheProgressClock: the clock moves for a state that opens again, a pause, an arrival,
// and a clock that was ahead.
func TestR88_ArrivalsAndReopeningsMoveTheProgressClock(t *testing.T) {
	began := epoch.Add(-time.Hour)
	for name, c := range map[string]struct {
		from, to operation.RolloutState
		progress time.Time
		ended    time.Time
	}{
		"goes on":      {operation.Running, operation.Running, began, began},
		"is over":      {operation.Running, operation.Complete, began, epoch},
		"is opened":    {operation.Complete, operation.Running, epoch, time.Time{}},
		"stays over":   {operation.Complete, operation.Complete, began, began},
		"fails":        {operation.Running, operation.FailedState, began, epoch},
		"over in part": {operation.Complete, operation.PartitionReached, began, epoch},
	} {
		w := &world{now: epoch, rollout: &operation.Rollout{State: c.from, ProgressAt: began, EndedAt: began, Verdict: &operation.Verdict{}}}
		w.setState(c.to, "because")
		r := w.rollout
		if r.State != c.to || r.Reason != "because" || !r.ProgressAt.Equal(c.progress) || !r.EndedAt.Equal(c.ended) || (r.Verdict != nil) != (c.to == operation.FailedState) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	w := &world{now: epoch, rollout: &operation.Rollout{State: operation.Running, WaitsSince: began}}
	w.setState(operation.PausedState, "paused")
	if !w.rollout.PausedAt.Equal(epoch) || w.rollout.WaitsSince.IsZero() {
		t.Errorf("paused: %+v", w.rollout)
	}
	w.now = epoch.Add(time.Minute)
	if w.setState(operation.PausedState, "paused"); !w.rollout.PausedAt.Equal(epoch) {
		t.Errorf("paused since %s", w.rollout.PausedAt)
	}
}

// TestR88_AnArrivalMovesIt, once. An arrival that ends in the future does not.
func TestR88_AnArrivalMovesIt(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling()
	began := f.rec.Rollout.ProgressAt
	clock := func() time.Time { return seenBy(f).rollout.ProgressAt }
	if got := clock(); !got.Equal(began) {
		t.Errorf("nothing arrived: %s", got)
	}
	end := f.now.Add(-10 * time.Second)
	f.at(2, "B").op(2, operation.Done, nil)
	if got := clock(); !got.Equal(end) {
		t.Errorf("a step is done: %s, want %s", got, end)
	}
	f.rec.Operations[0].Times.Ended = f.now.Add(1)
	if got := clock(); !got.Equal(began) {
		t.Errorf("it ends in the future: %s", got)
	}
	f.rec.Operations[0].Times.Ended, f.rec.Operations[0].To = end, "other"
	if got := clock(); !got.Equal(began) {
		t.Errorf("it led elsewhere: %s", got)
	}
	f.rec.Operations[0].To, f.rec.Operations[0].Phase = f.rec.Rollout.To, operation.Failed
	if got := clock(); !got.Equal(began) {
		t.Errorf("it failed: %s", got)
	}
	f.rec.Slots[2].WasAvailableAt = revisionOf(f.spec, "A")
	if got := clock(); !got.Equal(f.now) {
		t.Errorf("it became available there: %s", got)
	}
}

// TestR44_AStepShowsItsQuorumArithmetic: each step of a voting group shows the arithmetic.
func TestR44_AStepShowsItsQuorumArithmetic(t *testing.T) {
	f := newFixture(3, "consul")
	w := seenBy(f)
	c := candidate{m: w.find("db-2"), kind: operation.Update}
	if got := w.quorumSnapshot(c, &taken{}); got != "without db-2 2 of 3 voters are healthy (db-0 db-1), 2 needed" {
		t.Errorf("%q", got)
	}
	c.kind = operation.Create
	if got := w.quorumSnapshot(c, &taken{}); got != "" {
		t.Errorf("a creation takes no vote: %q", got)
	}
	c.kind = operation.Update
	f.listed()
	if got := seenBy(f).quorumSnapshot(c, &taken{}); got != "voters unknown" {
		t.Errorf("%q", got)
	}
	if got := seenBy(newFixture(3, "none")).quorumSnapshot(c, &taken{}); got != "" {
		t.Errorf("nobody votes: %q", got)
	}
	if quorumText("a", nil, 1) != "without a 0 of 1 voters are healthy (none), 1 needed" {
		t.Error("words of the arithmetic")
	}
}

// TestR128_ACVMIsCertainlyGone: a CVM is certainly gone after the engine's own deletion, or after listings lacked the
// CVM for a while and no agent reported.
func TestR128_ACVMIsCertainlyGone(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*fixture)
		want bool
	}{
		"it is there":             {func(f *fixture) { f.obs.Slots[2].Instance = &Instance{VMUUID: "vm-db-2"} }, false},
		"nobody looked":           {func(f *fixture) { f.blind("the platform") }, false},
		"missed a while":          {func(*fixture) {}, true},
		"missed a moment less":    {func(f *fixture) { f.rec.Slots[2].MissedSince = f.now.Add(-goneFor + 1) }, false},
		"missed for the 1st time": {func(f *fixture) { f.rec.Slots[2].MissedSince = time.Time{} }, false},
		"its agent speaks":        {func(f *fixture) { f.obs.Slots[2].Report = healthyReport("db-2", f.now, "none", nil) }, false},
		"we deleted it": {func(f *fixture) {
			f.rec.Slots[2].MissedSince = time.Time{}
			f.op(2, operation.Done, func(op *operation.Operation) { op.Kind = operation.Delete })
		}, true},
		"we deleted another one": {func(f *fixture) {
			f.rec.Slots[2].MissedSince = time.Time{}
			f.op(2, operation.Done, func(op *operation.Operation) { op.Kind, op.CVM.VMUUID = operation.Delete, "vm-old" })
		}, false},
		"we were refused": {func(f *fixture) {
			f.rec.Slots[2].MissedSince = time.Time{}
			f.op(2, operation.Failed, func(op *operation.Operation) { op.Kind = operation.Delete })
		}, false},
		"it never was": {func(f *fixture) { f.missing(2) }, true},
	} {
		f := newFixture(3, "none")
		f.obs.Slots[2].Instance, f.obs.Slots[2].Report, f.rec.Slots[2].MissedSince = nil, nil, f.now.Add(-goneFor)
		c.edit(f)
		if w := seenBy(f); w.certainlyGone(w.find("db-2")) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

// TestWhatDoesNotExistIsNotDrained: the first phase of a creation is DRAINED, too.
func TestWhatDoesNotExistIsNotDrained(t *testing.T) {
	for kind, want := range map[operation.Kind]group.SlotState{
		operation.Create: group.SlotCreating, operation.Update: group.SlotDrained, operation.Replace: group.SlotDrained, operation.Drain: group.SlotDrained,
	} {
		if got := phaseWord(operation.Operation{Kind: kind, Phase: operation.Drained}); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// TestR80_AMemberIsHeldByAHookOfItsDrain: only a hook of an open drain holds the member.
func TestR80_AMemberIsHeldByAHookOfItsDrain(t *testing.T) {
	f := newFixture(3, "none").want("B").rolling().op(2, operation.Draining, nil)
	id := f.rec.Operations[0].ID
	for name, c := range map[string]struct {
		step StepReport
		want bool
	}{
		"held":               {StepReport{Operation: id, Verb: VerbDrain, State: StepHeld}, true},
		"at work":            {StepReport{Operation: id, Verb: VerbDrain, State: operation.StepRunning}, false},
		"held when it began": {StepReport{Operation: id, Verb: operation.VerbPostLaunch, State: StepHeld}, false},
		"in another step":    {StepReport{Operation: "other", Verb: VerbDrain, State: StepHeld}, false},
	} {
		f.obs.Slots[2].Report.Steps = []StepReport{c.step}
		if got := seenBy(f).find("db-2").held(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	f.rec.Operations = slices.Clip(f.rec.Operations[:0])
	if seenBy(f).find("db-2").held() {
		t.Error("nothing is under way, and it is held")
	}
}

// TestR20_TheBudgetInWords, with the extra members that are available.
func TestR20_TheBudgetInWords(t *testing.T) {
	f := newFixture(3, "none")
	w := seenBy(f)
	m := w.find("db-2")
	for name, c := range map[string]struct {
		max   int
		c     candidate
		limit int
	}{
		"one":                   {1, candidate{m: m, condition: well}, 1},
		"none":                  {0, candidate{m: m, condition: well}, 0},
		"none, and it is down":  {0, candidate{m: m, condition: impaired}, 1},
		"none, and a refresh":   {0, candidate{m: m, condition: well, refresh: true}, 1},
		"two, and it is broken": {2, candidate{m: m, condition: impaired}, 2},
	} {
		w.spec.UpdatePolicy.MaxUnavailableFixed = intp(c.max)
		if limit, text := w.budget(c.c, &taken{}); limit != c.limit || !strings.HasPrefix(text, "max_unavailable is ") {
			t.Errorf("%s: %d, %q", name, limit, text)
		}
	}
}
