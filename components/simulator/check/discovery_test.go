package check

import (
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

func refresh(op *operation.Operation) { op.Way.Mode = operation.ModeRefresh }

// refreshing is a group of three, of which pg-0 is being refreshed.
func refreshing() *run {
	return three("none").after(time.Minute).op("a", "pg-0", operation.Drained, refresh).phases("a", "pg-0", operation.Booting)
}

func (r *run) hides(slot string) *run {
	return r.add(trace.Event{Kind: trace.Hidden, By: "coordinator-1", Group: "pg", Slot: slot, Boot: "boot-1-of-" + slot, Text: "its health is not known"})
}

func (r *run) judges(slot, revision string) *run {
	return r.add(trace.Event{Kind: trace.Judged, By: "coordinator-1", Group: "pg", Slot: slot, Text: revision})
}

func (r *run) hears(slot string) *run {
	return r.add(trace.Event{Kind: trace.Heard, By: "fault", Group: "pg", Slot: slot})
}

func discoveryCases() []cases { return []cases{foundCases(), judgedCases()} }

func foundCases() cases {
	const joining, settling, done = operation.Joining, operation.Settling, operation.Done
	return cases{
		id: "refresh-found",
		bad: []named{
			{"while it attests", refreshing().hides("pg-0")},
			{"while its checks are judged", refreshing().phases("a", "pg-0", joining).hides("pg-0")},
			{"while it settles", refreshing().phases("a", "pg-0", joining, settling).hides("pg-0")},
			{"long after it was heard again", refreshing().mutes("pg-0").hears("pg-0").after(time.Minute).hides("pg-0")},
		},
		good: []named{
			{"another one", refreshing().hides("pg-1")},
			{"it is ill", refreshing().stops("pg-0").hides("pg-0")},
			{"it was ill a moment ago", refreshing().stops("pg-0").serves("pg-0").hides("pg-0")},
			{"its agent began anew", refreshing().mutes("pg-0").hears("pg-0").hides("pg-0")},
			{"it is done", refreshing().phases("a", "pg-0", joining, settling, done).hides("pg-0")},
			{"it is restarted", three("none").after(time.Minute).phases("a", "pg-0", operation.Draining).hides("pg-0")},
		},
	}
}

func judgedCases() cases {
	const joining, settling, done = operation.Joining, operation.Settling, operation.Done
	joins := func() *run { return refreshing().phases("a", "pg-0", joining) }
	return cases{
		id: "refresh-judged",
		bad: []named{
			{"its agent said nothing", joins().phases("a", "pg-0", settling, done)},
			{"by those of before", joins().judges("pg-0", "old").phases("a", "pg-0", settling, done)},
			{"not yet", joins().judges("pg-0", "old").judges("pg-0", "").phases("a", "pg-0", settling, done)},
			{"it is down", joins().judges("pg-0", "").stops("pg-0").phases("a", "pg-0", done)},
			{"it is down, and the others are a majority", joins().lists([]string{"pg-0", "pg-1", "pg-2"}).stops("pg-0").phases("a", "pg-0", done)},
			{"its quorum is back for long", joins().lists([]string{"pg-0", "pg-1", "pg-2"}).stops("pg-0").stops("pg-1").after(time.Minute).servesAs("pg-1", "boot-2").after(time.Minute).phases("a", "pg-0", done)},
			{"another one's", joins().judges("pg-1", "new").phases("a", "pg-0", settling, done)},
			{"no more", joins().judges("pg-0", "new").judges("pg-0", "").phases("a", "pg-0", settling, done)},
		},
		good: []named{
			{"judged", joins().judges("pg-0", "").judges("pg-0", "new").phases("a", "pg-0", settling, done)},
			{"written once more", joins().judges("pg-0", "new").phases("a", "pg-0", settling, done).judges("pg-0", "").phases("a", "pg-0", done)},
			{"it fails", joins().phases("a", "pg-0", operation.Failed)},
			{"its quorum is away", joins().lists([]string{"pg-0", "pg-1", "pg-2"}).stops("pg-0").stops("pg-1").phases("a", "pg-0", done)},
			{"its quorum is back this moment", joins().lists([]string{"pg-0", "pg-1", "pg-2"}).stops("pg-0").stops("pg-1").after(time.Minute).servesAs("pg-1", "boot-2").phases("a", "pg-0", done)},
			{"its set never formed", three("etcd").after(time.Minute).phases("a", "pg-0", operation.Draining).op("a", "pg-0", joining, refresh).stops("pg-0").stops("pg-1").phases("a", "pg-0", done)},
			{"no refresh", three("none").after(time.Minute).phases("a", "pg-0", operation.Draining, joining, done)},
		},
	}
}
