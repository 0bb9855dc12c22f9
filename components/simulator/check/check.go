package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/simulator/trace"
)

// Checker checks one promise in a run.
type Checker struct {
	// ID of the promise in the reliability bar. The ids "pace-..." are the simulator's own.
	ID string
	// Text is the promise.
	Text string
	// Check returns the violations, in order of the events.
	Check func(trace.Trace) []Violation
}

// Stuck is the promise that every waiting group waits for an operator. A run that breaks only this
// promise made no member unavailable, and ends as a rollout that failed by its deadline. A hunt
// counts such runs separately.
const Stuck = "L11"

// Violation is one event that breaks a promise.
type Violation struct {
	// ID of the promise.
	ID string
	// At is the index of the event in the trace.
	At int
	// Message describes the violation for people.
	Message string
}

// String is one line.
func (v Violation) String() string { return fmt.Sprintf("%s at event %d: %s", v.ID, v.At, v.Message) }

// names matches the names in Messages, which differ between runs and plans.
var names = regexp.MustCompile(`[a-z0-9.-]*[0-9][a-z0-9.-]*`)

// Like reports that v and other break the same promise in the same words, except for names in them.
func (v Violation) Like(other Violation) bool {
	words := func(s string) string {
		s, _, _ = strings.Cut(names.ReplaceAllString(s, "#"), ": ")
		return s
	}
	return v.ID == other.ID && words(v.Message) == words(other.Message)
}

// All are the Checkers, one for each promise.
func All() []Checker {
	return slices.Concat(ofAvailability(), ofAdmission(), ofControl(), ofRest(), ofPace())
}

func ofAvailability() []Checker {
	return []Checker{
		{"I1", "a voluntary disruption starts, and comes to its call, only while, with it, no more members are away than max_unavailable allows, and as many more as extra members serve", each(budget)},
		{"I2", "a healthy voter is taken away only while the others are a majority, when that begins and when its call is made", each(quorum)},
		{"I2-set", "the workload's set changes by one member at a time, and those that are left when one is taken out are a majority of themselves", each(setChanges)},
		{"I3", "who leads the workload is taken away last, and only after leadership moved off it or its drain's time is over", each(leaderLast)},
		{"I6", "after a step of a rollout failed no other begins before its Slot serves again or somebody decides, and none while its record says that it failed", halt},
		{"R101", "a rollback is recorded once, with evidence, where the spec asks for it; its steps lead away from the Revision that failed, no leader writes the spec, and at rest every member in scope runs the Revision that the group went back to", rolledBack},
		{"I6-freeze", "while an operator has everything frozen, or a group, no Operation begins to take a member of it away", each(freeze)},
		{"I6-pause", "while an operator has a group paused, nothing begins to take a member of it away but what heals it or is asked for by name", each(paused)},
		{"R139", "what an operator protects is not taken away, what an operator drains by nothing but that, and what an operator excludes is not updated, or not healed", each(overrides)},
		{"drained", "a step acts on a member that it drains only once the member's agent has drained it, its hooks and its hand-over included, or its time for that is over", drainedFirst},
		{"min-ready", "nobody counts before it has served for min_ready: a step is done only then, and a member that is just back is away for whoever takes another one", counted},
		{"opportunistic", "where updates are OPPORTUNISTIC no rollout takes a member away that is well", each(opportunistic)},
		{"R94", "while a stage of a rollout is open no more Slots are given the target than the stage lets move", staged},
		{"R91", "a rollout that leaves a stable Revision is complete only at the end of its last bake", baked},
		{"R97", "a step of a rollout takes a member away that is well only in a window of the spec, by the true time within the bound of the clocks", windows},
		{"R98", "no limited work begins beyond the limits of the cluster, and no limit holds the repair of a member that is out of service", limits},
		{"R98-priority", "no limited work begins at a place that a group of higher priority waits for, if nothing but that limit holds it", priority},
		{"I4", "a group that is after another one begins its first creation and the steps of its rollout only while that one rests at its newest spec", after},
		{"R150", "work that a gate of the spec holds begins, and comes to its call, only while the gate is open; a gate holds no healing that it does not name", gated},
		{"launched", "a step that brings a member up is done only once the Boot's hooks after its launch ended", launched},
		{"refresh-found", "discovery leads to a member that serves all the while that it is refreshed", each(found)},
		{"refresh-judged", "a refresh is done only when the agent says that it goes by the new checks, and that each has its verdict", each(judged)},
		{"I7", "within one rollout a Slot comes to each Revision once at most: once forward, once back", onePath},
		{"I23", "the CVM of a Slot is deleted with its disk only where somebody gave that up by name: the group or the Slot goes, or is replaced on request", each(disks)},
	}
}

func ofAdmission() []Checker {
	return []Checker{
		{"I5", "a CVM is told to run only what its Slot's policy allows at that moment, and what a step leads to stays allowed until it ends", each(gateFirst)},
		{"I8", "no Operation leads to a Revision below the Slot's floor", each(floor)},
		{"I9", "a Boot is admitted only of the bound instance, at a Revision that the policy in force allows", each(admission)},
		{"approved", "in a group whose spec asks for approvals no Operation comes to its call for a Revision that nobody approved, and no Boot of it is let in", each(approved)},
		{"I10", "at most one Boot serves as a Slot, and who takes it over has a greater generation", each(oneHolder)},
	}
}

func ofControl() []Checker {
	return []Checker{
		{"I15", "what is the leaders' to write is fenced; Terms never fall, and each has one writer", singleWriter},
		{"I16", "over all coordinators at most one call with an effect is under way for a Slot, or may still take effect", fencedCalls},
		{"I17", "each call, and each part of an Operation, has one effect at most", onceEffective},
		{"I18", "each call is announced by its Operation's record first, and each Operation with a call ends with an outcome", writeAhead},
		{"CTL-21", "each accepted spec, each begin and end of a rollout, and each change of an operator's record by a leader has exactly one entry in the audit chain", entered},
		{"I21", "counters of records never fall, and what ended stays ended", each(monotonic)},
	}
}

func ofRest() []Checker {
	return []Checker{
		{"I25", "at rest the platform has exactly the CVMs that the Slots' records bind, or the group's status gives a reason", each(strays)},
		{"gone", "a group that was deleted with its disks leaves nothing: when its spec goes it has no CVM, no record of a Slot and no open Operation, and none comes before it is made anew", gone},
		{"I26", "at rest no Operation is open, unless the group's status gives a reason", each(nothingOpen)},
		{"L6", "a group that says it is as its spec wants it has every member serving what the spec asks for", each(arrived)},
		{"content", "a CVM is told to run the text of the Revision that its step leads to, and at rest runs that of the one it is admitted at, with its size and its image", each(content)},
		{"L10", "every group rests or names why it does not", each(namesReason)},
		{Stuck, "a group that does not rest in the end waits for a person, and has long said the same", each(neverStuck)},
	}
}

func ofPace() []Checker {
	return []Checker{
		{"pace-commits", "leaders write no more in a minute than steps of all members at once would need", paceOfCommits},
		{"pace-calls", "no Slot gets more calls in a minute than two Operations with their retries make", paceOfCalls},
	}
}

// Run checks every promise in t and sorts the violations by their events.
func Run(t trace.Trace) []Violation {
	var all []Violation
	for _, c := range All() {
		for _, v := range c.Check(t) {
			v.ID = c.ID
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return all
}

// each is a check of single events: look returns the faults of e, given all events before it.
func each(look func(s *state, e trace.Event) []string) func(trace.Trace) []Violation {
	return func(t trace.Trace) []Violation {
		var f findings
		walk(t, func(s *state, i int, e trace.Event) {
			for _, message := range look(s, e) {
				f.add(i, "%s", message)
			}
		})
		return f
	}
}

// findings collects Violations; Run adds their ids.
type findings []Violation

func (f *findings) add(at int, format string, args ...any) {
	*f = append(*f, Violation{At: at, Message: fmt.Sprintf(format, args...)})
}

// wrong is one message, for checks that find at most one fault in an event.
func wrong(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
