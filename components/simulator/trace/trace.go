// Package trace is the record of a run of the simulator: every event, in order. Checkers see
// nothing else, so they judge any run, including a hand-written one.
package trace

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/queue"
	"cadre.dev/store"
)

// Kind of an event.
type Kind string

const (
	// Committed: a record was written, or deleted. Events of one transaction follow each
	// other and have one Index.
	Committed Kind = "committed"
	// Called: a coordinator sends a call with an effect to the platform. Effected: the platform did
	// it, soon or late or, with another Call of the same number, twice. Declined: the platform refused
	// it when it arrived; a host may have written its files before. Answered: the coordinator has an
	// outcome.
	Called   Kind = "called"
	Effected Kind = "effected"
	Declined Kind = "declined"
	Answered Kind = "answered"
	// Served: a Boot serves as its Slot, admitted and healthy. Stopped: it no longer does, for any
	// reason.
	Served  Kind = "served"
	Stopped Kind = "stopped"
	// Muted: no coordinator hears a Slot's agent; Heard: coordinators hear it again.
	Muted Kind = "muted"
	Heard Kind = "heard"
	// Drained: a Slot's agent has drained it for a step. Its hooks ended without a hold, and it
	// handed leadership over.
	Drained Kind = "drained"
	// Launched: a post-launch hook of a Slot's agent ended, or its time was over.
	Launched Kind = "launched"
	// Judged: a Slot's agent reports to a coordinator that it runs the checks of the Revision in
	// Text, and that all of them have a result. Without Text, it no longer does.
	Judged Kind = "judged"
	// Found: discovery leads to a Slot from now on, as far as coordinator By knows. Hidden: it no
	// longer does, for the reason in Text.
	Found  Kind = "found"
	Hidden Kind = "hidden"
	// Lost: the platform lost the CVM of a Slot, with its disk.
	Lost Kind = "lost"
	// Led: a Slot leads the workload of a group from now on, or none does.
	Led Kind = "led"
	// Listed: these members belong to the set of a group's workload from now on, running or not.
	Listed Kind = "listed"
	// Started and Crashed are processes of coordinators; a crash loses all unstored state.
	Started Kind = "started"
	Crashed Kind = "crashed"
	// Faulted: a fault was injected; Healed: all faults end now.
	Faulted Kind = "faulted"
	Healed  Kind = "healed"
	// Settled ends a run that had the time to settle.
	Settled Kind = "settled"
)

// Outcome of a call: with a lost answer it is Unknown, whether or not the platform did the call.
type Outcome string

const (
	OK      Outcome = "ok"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// Event is one event. Kind determines the fields that are set; the others are zero.
type Event struct {
	Kind Kind
	// At is the time since the run began.
	At time.Duration
	// By is the actor: the Slot of a coordinator or of a member, "operator", "platform" or "fault".
	By string
	// The Group and Slot of the event, and the Slot's Boot.
	Group, Slot, Boot string
	// Text is for people.
	Text string

	// Index of the store, of Committed. Term is that of the Lease by which the writer fenced the
	// write; 0: the write was not fenced.
	Index, Term uint64
	// One record of Committed; all nil: no checker reads its kind. With Deleted it is the last
	// content of the record.
	Key       string
	Deleted   bool
	Spec      *group.Spec // in force from now on
	Operation *operation.Operation
	Policy    *policy.SlotPolicy
	Admission *policy.Admission
	Bound     *group.SlotRecord
	Rollout   *operation.Rollout
	GivenUp   *store.DeleteDisks
	Ending    *store.DeleteGroup
	Asked     *store.QueueRequest
	Excluded  *store.Override
	// Gate is a setting of a gate.
	Gate   *store.Override
	Entry  *audit.Entry
	Limits *store.Limits
	// Limited: the record is the status of a Slot whose next step waits at a limit of the cluster.
	Limited bool
	// Waits is the limit of the cluster that alone holds the next step of that Slot; empty: none.
	Waits queue.Limit
	// Gated: the record is the status of a Slot whose next step waits at closed gates alone.
	Gated bool

	// Call of Called, Effected and Answered, with the Outcome of Answered.
	Call    Call
	Outcome Outcome

	// Voters and Learners of Listed, sorted: the members with a vote, and those without.
	Voters, Learners []string

	// CVMs of Settled: the platform's CVMs, sorted by name.
	CVMs []CVM
	// Resting, of Settled, by group: "" when the group matches its spec, else the reason in its
	// status. A group without an entry gives no status.
	Resting map[string]string
	// Waiting describes the groups that are not settled. A group with the same reason for Still has
	// had the full time of a run.
	Waiting map[string]Waiting
	Still   time.Duration
	// Faults of Settled: the number of injected faults. Steps are the transactions and calls of
	// coordinators.
	Faults, Steps int
}

// Call is one request to the platform. Starting a stopped CVM counts as a restart, as in the
// records.
type Call struct {
	cloud.Call

	// ID numbers the calls of a run, from 1.
	ID int
	// Latest is until when it may take effect, regardless of the answer (see Event.At).
	Latest time.Duration
	// Content is the compose text in the document with Hash; empty: the call names no document, or
	// an unprovisioned one.
	Content string
}

// CVM as the platform has it.
type CVM struct {
	Name, VMUUID, InstanceID, Hash string
	// Content is its compose text; InstanceType and OSImage are its shape.
	Content, InstanceType, OSImage string
	// Stopped: nothing runs in it; Hung: its workload hangs. Both last until a start.
	Stopped, Hung bool
}

// Waiting is a group's status in addition to its reason.
type Waiting struct {
	// For is for how long the reason has been the same.
	For time.Duration
	// Rollout is the id of the incomplete rollout.
	Rollout string
	// Holds name the holds of its Slots' next steps, sorted and unique.
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
