// Package trace is what a run of the simulator leaves: everything that happened, in the order
// in which it happened. Checkers see nothing else, so they run over any run, and over one that
// was written by hand.
package trace

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Kind is what happened.
type Kind string

const (
	// Committed: a record was written, or deleted. Events of one transaction follow each
	// other and have one Index.
	Committed Kind = "committed"
	// Called: a coordinator sends a call with an effect to the platform. Effected: the platform
	// did it, soon or late or, with another Call of the same number, twice. Answered: the
	// coordinator has an outcome.
	Called   Kind = "called"
	Effected Kind = "effected"
	Answered Kind = "answered"
	// Served: a Boot serves as its Slot, admitted and well. Stopped: it does not any more,
	// whatever the reason.
	Served  Kind = "served"
	Stopped Kind = "stopped"
	// Muted: no coordinator hears a Slot's agent, whatever it does; Heard: they do again.
	Muted Kind = "muted"
	Heard Kind = "heard"
	// Drained: a Slot's agent has drained it for a step: its hooks ended, none holds, and it handed
	// over.
	Drained Kind = "drained"
	// Launched: a hook that a Slot's agent runs after a launch ended, or its time was over.
	Launched Kind = "launched"
	// Judged: a Slot's agent says to a coordinator that it goes by the checks of the Revision in
	// Text, and that all of them are judged; with no Text, that it does not any more.
	Judged Kind = "judged"
	// Found: discovery leads to a Slot from now on, as far as coordinator By knows; Hidden: it
	// does not any more, for the reason in Text.
	Found  Kind = "found"
	Hidden Kind = "hidden"
	// Lost: the platform lost the CVM of a Slot, with its disk.
	Lost Kind = "lost"
	// Led: the workload of a group is led by a Slot from now on, or by none.
	Led Kind = "led"
	// Listed: these belong to the set of a group's workload from now on, whether they run or not.
	Listed Kind = "listed"
	// Started and Crashed are processes of coordinators; a crash loses what is not stored.
	Started Kind = "started"
	Crashed Kind = "crashed"
	// Faulted: something was made to go wrong; Healed: everything goes right from now on.
	Faulted Kind = "faulted"
	Healed  Kind = "healed"
	// Settled ends a run that had the time to come to rest.
	Settled Kind = "settled"
)

// Outcome of a call: a lost answer is unknown, whatever the platform did.
type Outcome string

const (
	OK      Outcome = "ok"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// Event is one thing that happened. Which fields say something depends on Kind; the others
// are zero.
type Event struct {
	Kind Kind
	// At is the time since the run began.
	At time.Duration
	// By is who did it: the Slot of a coordinator or of a member, "operator", "platform" or
	// "fault".
	By string
	// Group and Slot that it is about, and its Boot.
	Group, Slot, Boot string
	// Text is for people.
	Text string

	// Index of the store, of Committed. Term is that of the Lease by which the writer fenced
	// the write; 0: it did not, as it does not lead.
	Index, Term uint64
	// Record of Committed, one of them; all nil: it is of a kind that no checker reads. With
	// Deleted it is what the record said last.
	Key       string
	Deleted   bool
	Spec      *group.Spec // the one in force from now on
	Operation *operation.Operation
	Policy    *policy.SlotPolicy
	Admission *policy.Admission
	Bound     *group.SlotRecord
	Rollout   *operation.Rollout
	GivenUp   *store.DeleteDisks
	Ending    *store.DeleteGroup
	Asked     *store.QueueRequest
	Excluded  *store.Override

	// Call of Called, Effected and Answered, with the Outcome of Answered.
	Call    Call
	Outcome Outcome

	// Voters and Learners of Listed, sorted: the members with a vote, and those without.
	Voters, Learners []string

	// CVMs of Settled: what the platform has, sorted by name.
	CVMs []CVM
	// Resting, of Settled, by group: "" when everything is as the spec wants it, else the
	// reason that its status gives. A group without an entry says nothing.
	Resting map[string]string
	// Waiting says more of those that do not rest. What gives the same reason for Still has had
	// the time that a run has for that.
	Waiting map[string]Waiting
	Still   time.Duration
	// Faults of Settled: how often something was made to go wrong. Steps are the transactions
	// and calls that coordinators made.
	Faults, Steps int
}

// Call is one request to the platform. What starts a CVM that does not run counts as a restart, as
// in the records.
type Call struct {
	cloud.Call

	// ID numbers the calls of a run, from 1.
	ID int
	// Latest is until when it may take effect, whatever the caller heard (see Event.At).
	Latest time.Duration
	// Content is the compose text in the document that Hash is of; empty: the call names none, or
	// one that nobody provisioned.
	Content string
}

// CVM is one as the platform has it.
type CVM struct {
	Name, VMUUID, InstanceID, Hash string
	// Content is the compose text that it runs, InstanceType and OSImage what it runs on.
	Content, InstanceType, OSImage string
	// Stopped: nothing runs in it; Hung: its workload hangs; until somebody starts it.
	Stopped, Hung bool
}

// Waiting is what the status of a group shows beside the reason that it gives.
type Waiting struct {
	// For is for how long the reason has been the same.
	For time.Duration
	// Rollout is the id of the one that is not complete.
	Rollout string
	// Holds name what holds the next steps of its Slots, sorted, each once.
	Holds []string
}

// Trace is a run.
type Trace []Event

// String is one line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3fs %-9s %-13s", e.At.Seconds(), e.Kind, e.By)
	put := func(name string, value any, is bool) {
		if is {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	put("slot", e.Slot, e.Slot != "")
	put("boot", e.Boot, e.Boot != "")
	put("call", fmt.Sprintf("%d:%s:%s", e.Call.ID, e.Call.Verb, e.Call.Name), e.Call.ID != 0)
	put("outcome", e.Outcome, e.Outcome != "")
	put("key", e.Key, e.Key != "")
	put("index", e.Index, e.Index != 0)
	put("term", e.Term, e.Term != 0)
	put("deleted", true, e.Deleted)
	if o := e.Operation; o != nil {
		put("phase", o.Phase, true)
		put("reason", o.Reason, o.Reason != "")
	}
	put("voters", e.Voters, e.Kind == Listed)
	put("learners", e.Learners, len(e.Learners) > 0)
	put("", e.Text, e.Text != "")
	return strings.TrimRight(b.String(), " ")
}

// String is a line for each event.
func (t Trace) String() string {
	var b strings.Builder
	for _, e := range t {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
