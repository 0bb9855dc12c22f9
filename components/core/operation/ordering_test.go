package operation

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
)

// entered returns the phases that an Operation passed.
func entered(phases ...Phase) PhaseTimes {
	out := PhaseTimes{}
	for _, p := range phases {
		out[p] = start
	}
	return out
}

// TestR82_WhichOrderStands: the agent's order follows from the record alone, even after the Operation ended.
func TestR82_WhichOrderStands(t *testing.T) {
	transfer := &Transfer{ExpectedLeader: "db-1", Candidates: []string{"db-2"}}
	for name, c := range map[string]struct {
		op   Operation
		want Verb // "": none
	}{
		"drains":                                 {Operation{Phase: Draining, Transfer: transfer}, VerbDrain},
		"drained":                                {Operation{Phase: Drained}, VerbDrain},
		"acts":                                   {Operation{Phase: Acting}, VerbDrain},
		"acts, and nothing was drained":          {Operation{Phase: Acting, Way: Way{SkipDrain: true}}, ""},
		"acts on a refresh":                      {Operation{Phase: Drained, Way: Way{Mode: ModeRefresh}}, ""},
		"acts on what is to be made":             {Operation{Phase: Acting, Kind: Create}, ""},
		"boots":                                  {Operation{Phase: Booting}, VerbPostLaunch},
		"settles":                                {Operation{Phase: Settling}, VerbPostLaunch},
		"is deleted":                             {Operation{Phase: Booting, Kind: Delete}, ""},
		"joins after a refresh":                  {Operation{Phase: Joining, Way: Way{Mode: ModeRefresh}}, ""},
		"restarts a service":                     {Operation{Phase: Booting, Way: Way{Service: "db"}}, VerbRestartService},
		"restarted a service":                    {Operation{Phase: Joining, Way: Way{Service: "db"}}, VerbPostLaunch},
		"called off before it drained":           {Operation{Phase: Aborted, Entered: entered(Drained)}, ""},
		"called off while it drained":            {Operation{Phase: Aborted, Entered: entered(Draining)}, VerbCancelDrain},
		"refused":                                {Operation{Phase: Failed, Entered: entered(Draining, Acting)}, VerbCancelDrain},
		"did not come back":                      {Operation{Phase: Failed, Entered: entered(Draining, Acting, Booting)}, ""},
		"did not restart its service":            {Operation{Phase: Failed, Way: Way{Service: "db"}, Entered: entered(Draining, Booting)}, VerbCancelDrain},
		"restarted it, and is not available":     {Operation{Phase: Failed, Way: Way{Service: "db"}, Entered: entered(Draining, Booting, Joining)}, ""},
		"did not restart it, and never drained":  {Operation{Phase: Failed, Way: Way{Service: "db"}, Entered: entered(Booting)}, ""},
		"done":                                   {Operation{Phase: Done, Entered: entered(Draining)}, ""},
		"is back in service":                     {Operation{Phase: Done, Kind: Drain, Entered: entered(Draining)}, VerbCancelDrain},
		"is back in service, and never was away": {Operation{Phase: Done, Kind: Drain, Entered: entered(Drained)}, ""},
		"removed as soon as it was made":         {Operation{Phase: Aborted, Entered: entered(Draining, Acting, Booting)}, ""},
	} {
		c.op.ID, c.op.Attempt = "op", 2
		c.op.Times.DrainBy, c.op.Times.HealthyBy = start.Add(time.Minute), start.Add(time.Hour)
		o, ok := CurrentOrder(c.op)
		if ok != (c.want != "") || o.Verb != c.want {
			t.Errorf("%s: %+v, %t, want %q", name, o, ok, c.want)
		}
		deadline := map[Verb]time.Time{VerbDrain: c.op.Times.DrainBy, VerbPostLaunch: c.op.Times.HealthyBy, VerbRestartService: c.op.Times.HealthyBy}[c.want]
		if ok && (o.Operation != "op" || o.Attempt != 2 || !o.Deadline.Equal(deadline)) {
			t.Errorf("%s: %+v", name, o)
		}
		if leader := o.ExpectedLeader == "db-1" && slices.Equal(o.Candidates, transfer.Candidates); leader != (c.op.Transfer != nil) {
			t.Errorf("%s: hands over: %+v", name, o)
		}
	}
}

// TestR82_AnOperationThatAsksNothingKeepsTheEarlierOrder: the earlier order stands, unless the Operation ended or
// drained a Boot.
func TestR82_AnOperationThatAsksNothingKeepsTheEarlierOrder(t *testing.T) {
	for name, c := range map[string]struct {
		op   Operation
		want bool
	}{
		"drains":                         {Operation{Phase: Draining, Entered: entered(Draining)}, false},
		"refreshes":                      {Operation{Phase: Booting, Way: Way{Mode: ModeRefresh}, Entered: entered(Booting)}, true},
		"was called off in its drain":    {Operation{Phase: Aborted, Entered: entered(Draining)}, false},
		"was refused without a drain":    {Operation{Phase: Failed, Entered: entered(Acting)}, false},
		"booted without drain and call":  {Operation{Phase: Failed, Entered: entered(Booting)}, false},
		"was called off after no drain":  {Operation{Phase: Aborted, Entered: entered(Drained)}, true},
		"was done by a CVM that is gone": {Operation{Phase: Done, Entered: entered(Drained)}, true},
	} {
		if got := c.op.asksNothing(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestADrainedMemberIsOutOfServiceUntilItsBoot: no client is routed to a member from its drain until its next Boot is
// due.
func TestADrainedMemberIsOutOfServiceUntilItsBoot(t *testing.T) {
	out := map[Phase]bool{Draining: true, Drained: true, Acting: true}
	for _, p := range []Phase{"", Draining, Drained, Acting, Booting, Joining, Settling, Done, Aborted, Failed} {
		if got := (Operation{Phase: p}).OutOfService(); got != out[p] {
			t.Errorf("%q: %t", p, got)
		}
		if (Operation{Phase: p, Way: Way{Mode: ModeRefresh}}).OutOfService() {
			t.Errorf("%q: a refresh takes a member away", p)
		}
		if got, want := (Operation{Phase: p, Way: Way{Service: "db"}}).OutOfService(), out[p] || p == Booting; got != want {
			t.Errorf("%q, of a service: %t", p, got)
		}
	}
}

// TestSomeOperationsOutliveTheirRollout: a later rollout keeps an Operation that matters to its Slot after the
// Operation's own rollout.
func TestSomeOperationsOutliveTheirRollout(t *testing.T) {
	for name, op := range map[string]Operation{
		"began with a moved CVM": {Phase: Done, Before: Before{PendingBoot: PendingBoot{To: "r1"}}},
		"healed":                 {Phase: Failed, Actor: ActorHealing}, "drained": {Phase: Done, Kind: Drain},
		"ended with half of its change there": {Phase: Failed, Kind: Update, Call: Call{Applied: []Part{PartOSImage}}},
	} {
		if !op.OutlivesRollout() {
			t.Errorf("%s: it goes with its rollout", name)
		}
	}
	if (Operation{Phase: Done, Kind: Update, Actor: ActorRollout}).OutlivesRollout() {
		t.Error("a step like any other outlives its rollout")
	}
}

// TestOperationsWithoutEffectKeepTheOldAssignment: the Slot keeps its old assignment if its CVM received no change.
func TestOperationsWithoutEffectKeepTheOldAssignment(t *testing.T) {
	for name, c := range map[string]struct {
		op           Operation
		nothing, old bool
	}{
		"called off":                         {Operation{Phase: Aborted}, true, true},
		"called off, and a boot proved it":   {Operation{Phase: Aborted, Failure: Failure{Arrived: true}}, true, false},
		"refused":                            {Operation{Phase: Failed, Failure: Failure{Cause: CauseRefused}}, true, true},
		"resolved as failed":                 {Operation{Phase: Failed, Failure: Failure{Cause: CauseResolved}}, true, true},
		"late":                               {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Entered: entered(Booting)}, false, false},
		"at work":                            {Operation{Phase: Acting, Failure: Failure{Cause: CauseRefused}}, false, false},
		"done":                               {Operation{Phase: Done}, false, false},
		"refused after half of it":           {Operation{Phase: Failed, Failure: Failure{Cause: CauseRefused}, Call: Call{Applied: []Part{PartResources}}}, false, false},
		"called off after it began to go":    {Operation{Phase: Aborted, Set: Set{Leaves: true}}, false, false},
		"never let out of its set":           {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Set: Set{Leaves: true}}, false, false},
		"a refresh that no boot proved":      {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Way: Way{Mode: ModeRefresh}, Entered: entered(Booting)}, false, true},
		"a refresh at work":                  {Operation{Phase: Booting, Way: Way{Mode: ModeRefresh}}, false, false},
		"a refresh that was proved, and ...": {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Way: Way{Mode: ModeRefresh}, Entered: entered(Booting, Joining)}, false, false},
	} {
		c.op.From, c.op.To = "A", "B"
		if got := c.op.CameToNothing(); got != c.nothing {
			t.Errorf("%s: came to nothing: %t", name, got)
		}
		want := "B"
		if c.old {
			want = "A"
		}
		if got := c.op.AssignedAfter("B"); got != want {
			t.Errorf("%s: assigned %s", name, got)
		}
		if got := c.op.AssignedAfter("C"); got != "C" {
			t.Errorf("%s: assigned %s, and another step had moved it to C", name, got)
		}
		c.op.From = ""
		if got := c.op.AssignedAfter("B"); got != "B" {
			t.Errorf("%s: assigned %q, and it was nothing before", name, got)
		}
		c.op.From, c.op.To = "A", ""
		if got := c.op.AssignedAfter(""); got != "" {
			t.Errorf("%s: assigned %q by what leads nowhere", name, got)
		}
	}
}

// TestR5_ARevisionThatABootProvedStaysAssigned: the step is called off because its member arrived automatically. The
// old Boot proves nothing: its CVM may have received another Revision since.
func TestR5_ARevisionThatABootProvedStaysAssigned(t *testing.T) {
	for boot, want := range map[string]string{"boot-new": "B", "boot-old": "A"} {
		op, now := to(t, Update, Drained)
		f := quiet(now)
		f.Unwanted = "the slot is not outdated any more"
		f.Admission = &AdmissionView{BootID: boot, Revision: "B", InstanceID: "i-1"}
		op, _ = step(t, op, f, now, Aborted)
		if got := op.AssignedAfter("B"); got != want {
			t.Errorf("%s: assigned %s, want %s", boot, got, want)
		}
	}
}

// TestR90_AStepsProofIsKeptWithItsEnd: the step was available for min_ready, and not merely done.
func TestR90_AStepsProofIsKeptWithItsEnd(t *testing.T) {
	settled := func(kind Kind) (before, after Operation) {
		before, now := to(t, kind, Settling)
		now = now.Add(limits.MinReady)
		after, _ = step(t, before, happy(before, now), now, Done)
		return before, after
	}
	for _, kind := range []Kind{Create, Update} {
		before, op := settled(kind)
		if got := before.WasAvailableAfter("A"); got != "A" {
			t.Errorf("%s: available at %s before its end", kind, got)
		}
		if got := op.WasAvailableAfter("A"); got != "B" {
			t.Errorf("%s: available at %s", kind, got)
		}
		op.Seen.AvailableSince = time.Time{} // only the quorum was missing
		if got := op.WasAvailableAfter("A"); got != "A" {
			t.Errorf("%s, without its quorum: available at %s", kind, got)
		}
	}
	_, restart := settled(Restart)
	restart.Rollout = "" // of an operator or of healing
	removal, _ := to(t, Delete, Done)
	for _, op := range []Operation{restart, removal} {
		if got := op.WasAvailableAfter("before"); got != "before" {
			t.Errorf("%s: available at %s", op.Kind, got)
		}
	}
}

// TestR118_AReplacementThatCameToNothingIsNone: a refused, called-off or missing creation leaves the one replacement
// and its attempt unused. A creation that was made, or that gave the old CVM up, uses them.
func TestR118_AReplacementThatCameToNothingIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		op      Operation
		nothing bool
	}{
		"refused":                     {Operation{Phase: Failed, Failure: Failure{Cause: CauseRefused}, Call: Call{Number: 1}}, true},
		"the CVM is listed again":     {Operation{Phase: Aborted, Failure: Failure{Cause: CauseUnwanted}}, true},
		"refused, and out of its set": {Operation{Phase: Failed, Failure: Failure{Cause: CauseRefused}, Set: Set{Leaves: true}, Call: Call{Number: 1}}, true},
		"called off as unsafe":        {Operation{Phase: Aborted, Failure: Failure{Cause: CauseUnsafe}, Call: Call{Number: 4}}, true},
		"at work":                     {Operation{Phase: Booting, Call: Call{Number: 1}}, false},
		"never let out of its set":    {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Set: Set{Leaves: true}}, true},
		"late":                        {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Call: Call{Applied: []Part{PartCreate}, Number: 1}, Entered: entered(Booting)}, false},
		"another one's CVM, late":     {Operation{Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Entered: entered(Booting)}, false},
		"done":                        {Operation{Phase: Done, Call: Call{Number: 1}}, false},
		"refused after the old one":   {Operation{Phase: Failed, Failure: Failure{Cause: CauseRefused}, Call: Call{Applied: []Part{PartDelete}, Number: 2}}, false},
		"a restart":                   {Operation{Kind: Restart, Phase: Aborted}, false},
		"an operator's":               {Operation{Actor: ActorOperator, Phase: Aborted}, false},
	} {
		c.op.Kind, c.op.Actor = cmp.Or(c.op.Kind, Replace), cmp.Or(c.op.Actor, ActorHealing)
		before := group.Heals{Attempts: 6, Replacements: 1, LastKind: string(Replace)}
		want := before
		if c.nothing {
			want.Attempts, want.Replacements = 5, 0
		}
		got := c.op.HealsAfter(&before)
		if *got != want || before.Attempts != 6 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if c.op.HealsAfter(nil) != nil {
			t.Errorf("%s: counted where nothing was", name)
		}
	}
}

// TestR115_WhichRestartsCostADisk: the restarts of a down member that had no success. The count outlives the
// Operations.
func TestR115_WhichRestartsCostADisk(t *testing.T) {
	failed := Operation{Kind: Restart, Actor: ActorHealing, Phase: Failed, Failure: Failure{Cause: CauseDeadline}, Before: Before{Down: true}, Call: Call{Number: 1}, Entered: entered(Booting)}
	for name, c := range map[string]struct {
		edit func(op *Operation)
		n    int
	}{
		"late":                     {func(*Operation) {}, 3},
		"it does not boot":         {func(op *Operation) { op.Failure.Cause = CauseBootError }, 3},
		"refused":                  {func(op *Operation) { op.Failure.Cause = CauseRefused }, 2},
		"called off":               {func(op *Operation) { op.Phase = Aborted }, 2},
		"at work":                  {func(op *Operation) { op.Phase = Booting }, 2},
		"of a CVM that ran":        {func(op *Operation) { op.Before.Down = false }, 2},
		"others were ill as well":  {func(op *Operation) { op.Before.Shared = true }, 2},
		"no call was made":         {func(op *Operation) { op.Call.Number = 0 }, 2},
		"it was ready for a while": {func(op *Operation) { op.Entered[Settling] = start }, 2},
		"an operator's":            {func(op *Operation) { op.Actor = ActorOperator }, 2},
		"a replacement":            {func(op *Operation) { op.Kind = Replace }, 2},
	} {
		op := failed
		op.Entered = entered(Booting)
		c.edit(&op)
		before := group.Heals{Attempts: 3, FailedDown: 2}
		if got := op.HealsAfter(&before); got.FailedDown != c.n || got.Attempts != 3 || before.FailedDown != 2 {
			t.Errorf("%s: %+v, want %d", name, got, c.n)
		}
	}
}

// TestR118_AnotherRevisionRestartsTheCount: the count restarts once the Revision is reached. An update that leaves the
// workload's Revision, or changes only the Slot's own env, keeps the count.
func TestR118_AnotherRevisionRestartsTheCount(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(op *Operation)
		kept bool
	}{
		"done":             {func(*Operation) {}, false},
		"late":             {func(op *Operation) { op.Phase, op.Failure.Cause = Failed, CauseDeadline }, true},
		"called off":       {func(op *Operation) { op.Phase = Aborted }, true},
		"a refresh":        {func(op *Operation) { op.Way.Mode = ModeRefresh }, true},
		"env of its own":   {func(op *Operation) { op.Way.Mode = ModeOwn }, true},
		"a drain":          {func(op *Operation) { op.Kind = Drain }, true},
		"a heal that held": {func(op *Operation) { op.Kind, op.Actor = Restart, ActorHealing }, true},
	} {
		op := Operation{Kind: Update, Phase: Done}
		c.edit(&op)
		h := &group.Heals{Attempts: 1, Replacements: 1}
		want := h
		if !c.kept {
			want = nil
		}
		if got := op.HealsAfter(h); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
