package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// Operations prints the open operations, one line each.
func Operations(s Style, list []operation.Operation, now time.Time) string {
	if len(list) == 0 {
		return "nothing is being carried out\n"
	}
	rows := [][]Cell{}
	for _, o := range list {
		rows = append(rows, []Cell{
			C(o.ID), T(o.Slot, Bold), C(strings.ToLower(string(o.Kind))), T(string(o.Phase), phaseTone(o.Phase)), C(string(o.Actor)),
			C(format.Ago(ended(o, now).Sub(o.Times.Created))), C(deadline(o, now)), C(o.Reason),
		})
	}
	return s.Table([]string{"OPERATION", "SLOT", "ACTION", "PHASE", "FOR", "TOOK", "UNTIL", "REASON"}, rows)
}

// Requests prints the waiting requests.
func Requests(s Style, list []client.Asked, now time.Time) string {
	if len(list) == 0 {
		return "nothing waits to begin\n"
	}
	rows := [][]Cell{}
	for _, q := range list {
		rows = append(rows, []Cell{
			C(q.ID), C(q.Kind), T(cmp.Or(q.Slot, q.Operation, q.Group), Bold), C(format.Ago(now.Sub(q.At))), C(q.By), C(q.Reason),
		})
	}
	return s.Table([]string{"REQUEST", "KIND", "ABOUT", "WAITS", "BY", "REASON"}, rows)
}

func ended(o operation.Operation, now time.Time) time.Time {
	if o.Times.Ended.IsZero() {
		return now
	}
	return o.Times.Ended
}

// deadline is the deadline of the present phase.
func deadline(o operation.Operation, now time.Time) string {
	var at time.Time
	switch o.Phase {
	case operation.Draining, operation.Drained:
		at = o.Times.DrainBy
	case operation.Booting, operation.Joining, operation.Settling:
		at = o.Times.HealthyBy
	case operation.Acting, operation.Done, operation.Aborted, operation.Failed:
	}
	switch {
	case at.IsZero():
		return ""
	case at.Before(now):
		return "overdue"
	}
	return "in " + format.Ago(at.Sub(now))
}

// Operation is everything about one Operation, or about the request that waits for one.
func Operation(s Style, o client.Operation, now time.Time) string {
	if o.Operation == nil {
		if o.Request == nil {
			return ""
		}
		q := o.Request
		return s.Fields(
			Field{"request", Cell{q.ID, Bold}}, Field{"asks for", Cell{q.Kind, Plain}}, Field{"group", Cell{q.Group, Plain}}, Field{"slot", Cell{q.Slot, Plain}},
			Field{"reason", Cell{q.Reason, Plain}}, Field{"by", Cell{q.By, Plain}}, Field{"since", Cell{clock(q.At), Plain}},
			Field{"now", Cell{"it waits: `cadre rollout plan` shows the hold", Warn}})
	}
	op := *o.Operation
	text := s.Fields(
		Field{"operation", Cell{op.ID, Bold}},
		Field{"slot", Cell{op.Slot, Plain}},
		Field{"action", Cell{strings.ToLower(string(op.Kind)), Plain}},
		Field{"phase", Cell{string(op.Phase), phaseTone(op.Phase)}},
		Field{"why", Cell{op.Reason, Plain}},
		Field{"cause", Cell{string(op.Failure.Cause), Plain}},
		Field{"on behalf of", Cell{string(op.Actor), Plain}},
		Field{"request", Cell{op.Request.ID, Plain}},
		Field{"by", Cell{op.Request.By, Plain}},
		Field{"reason given", Cell{op.Request.Note, Plain}},
		Field{"overridden", Cell{overridden(op), Warn}},
		Field{"rollout", Cell{op.Rollout, Plain}},
		Field{"revision", Cell{format.Arrow(op.From, op.To), Plain}},
		Field{"vm uuid", Cell{op.CVM.VMUUID, Plain}},
		Field{"instance id", Cell{op.CVM.InstanceID, Plain}},
		Field{"platform calls", Cell{calls(op), Plain}},
		Field{"parts done", Cell{parts(op.Call.Applied), Plain}},
		Field{"until", Cell{deadline(op, now), Plain}},
		Field{"term", Cell{fmt.Sprint(op.Term), Plain}},
	)
	type entry struct {
		phase operation.Phase
		at    time.Time
	}
	var entries []entry
	for phase, at := range op.Entered {
		entries = append(entries, entry{phase, at})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(string(a.phase), string(b.phase))
	})
	rows := [][]Cell{}
	for _, e := range entries {
		rows = append(rows, []Cell{T(string(e.phase), phaseTone(e.phase)), C(clock(e.at)), C(format.Ago(e.at.Sub(op.Times.Created)))})
	}
	if len(rows) > 0 {
		text += "\n" + s.Table([]string{"PHASE", "ENTERED", "AFTER"}, rows)
	}
	return text
}

// overridden lists the holds that the step passed.
func overridden(op operation.Operation) string {
	texts := make([]string, 0, len(op.Overridden))
	for _, o := range op.Overridden {
		texts = append(texts, format.Overridden(o))
	}
	return strings.Join(texts, "; ")
}

func calls(op operation.Operation) string {
	if op.Call.Number == 0 {
		return ""
	}
	text := fmt.Sprint(op.Call.Number)
	if op.Call.Part != "" {
		text += ", the last one about " + string(op.Call.Part)
	}
	if op.Call.Outcome != "" {
		return text + ": " + string(op.Call.Outcome)
	}
	if op.Phase == operation.Acting {
		return text + ": not answered yet"
	}
	return text
}

func parts(list []operation.Part) string {
	var out []string
	for _, p := range list {
		out = append(out, string(p))
	}
	return strings.Join(out, ", ")
}

// OperationLine is how far a request is, in one line.
func OperationLine(o client.Operation) string {
	switch {
	case o.Operation == nil && o.Request != nil:
		return fmt.Sprintf("%s waits its turn: `cadre rollout plan %s` shows the hold", o.Request.Kind, o.Request.Group)
	case o.Operation == nil:
		return "waits for the leader"
	}
	text := fmt.Sprintf("%s of %s is %s", strings.ToLower(string(o.Operation.Kind)), o.Operation.Slot, o.Operation.Phase)
	if o.Operation.Reason != "" {
		text += ": " + o.Operation.Reason
	}
	return text
}

// Resolved prints an operator's mark on an Operation, made or planned.
func Resolved(s Style, r client.Resolved) string {
	op := r.Operation
	text := s.Fields(
		Field{"operation", Cell{op.ID, Bold}}, Field{"slot", Cell{op.Slot, Plain}}, Field{"action", Cell{strings.ToLower(string(op.Kind)), Plain}},
		Field{"phase", Cell{string(op.Phase), phaseTone(op.Phase)}}, Field{"why", Cell{op.Reason, Plain}}, Field{"vm uuid", Cell{op.CVM.VMUUID, Plain}},
	) + Warnings(s, r.Warnings)
	if r.DryRun {
		return text + s.Line(fmt.Sprintf("it would be taken for %s", r.As), Bad)
	}
	return text + fmt.Sprintf("it is taken for %s within moments: `cadre operation show %s`\n", r.As, op.ID)
}

// Replacement prints the losses of replacing a Slot's CVM.
func Replacement(s Style, r client.Replacement) string {
	there := r.PlatformStatus
	if there == "" {
		there = "not listed"
	}
	text := s.Fields(
		Field{"slot", Cell{r.Slot, Bold}}, Field{"cvm", Cell{r.PlatformName, Plain}}, Field{"vm uuid", Cell{r.VMUUID, Plain}},
		Field{"instance id", Cell{r.InstanceID, Plain}}, Field{"on the platform", Cell{there, Plain}},
	) + Warnings(s, r.Warnings)
	if r.DryRun {
		return text + s.Line(fmt.Sprintf("%s would get a new CVM: the disk of the old one, and everything on it, is lost permanently", r.Slot), Bad)
	}
	return text + fmt.Sprintf("replacement of %s is queued (%s): its disk is given up; `cadre operation show %s`\n", r.Slot, r.RequestID, r.RequestID)
}

// Deleted prints the parts that are deleted with a group.
func Deleted(s Style, r client.Deleted, d client.Deletion) string {
	slots := strings.Join(r.Slots, ", ")
	if slots == "" {
		slots = "no slot"
	}
	text := Warnings(s, r.Warnings)
	switch {
	case d.Cancel && !r.Changed:
		return text + fmt.Sprintf("group %s is not being deleted: nothing is changed\n", r.Group)
	case d.Cancel:
		return text + fmt.Sprintf("group %s is kept: the remaining instances of %s stay\n", r.Group, slots)
	case !r.Changed:
		return text + fmt.Sprintf("group %s is being deleted already: %s\n", r.Group, slots)
	}
	verb, are := "is being deleted", "are"
	if d.DryRun {
		verb, are = "would be deleted", "would be"
	}
	if d.DeleteDisks {
		text += s.Line(fmt.Sprintf("group %s %s: the CVMs of %s %s deleted, and everything on their disks lost permanently", r.Group, verb, slots, are), Bad)
	} else {
		text += s.Line(fmt.Sprintf("group %s %s: the CVMs of %s %s left on the platform, without credentials", r.Group, verb, slots, are), Bad)
	}
	if d.DryRun {
		return text
	}
	return text + fmt.Sprintf("end the deletion with `cadre group delete %s --cancel`; deleted instances stay deleted\n", r.Group)
}

// Adoptables are the members of a group that no record binds.
func Adoptables(s Style, list []rollout.Adoptable, name string, asked bool, now time.Time) string {
	if len(list) == 0 {
		return fmt.Sprintf("every slot of group %s is bound: there is nothing to adopt\n", name)
	}
	rows := [][]Cell{}
	ready := 0
	for _, m := range list {
		verdict := Cell{"can be adopted", Good}
		switch {
		case m.Missing != "":
			verdict = Cell{m.Missing, Warn}
		case asked || m.Asked:
			verdict = Cell{"is being adopted", Good}
			ready++
		default:
			ready++
		}
		attested := ""
		if !m.AttestedAt.IsZero() {
			attested = since(m.AttestedAt, now) + " ago"
		}
		rows = append(rows, []Cell{
			T(m.Slot, Bold), C(m.PlatformName), C(m.PlatformStatus), C(m.InstanceID), C(m.ComposeHash), C(Number(m.Revision, m.Number)), C(m.VIP), C(attested), verdict,
		})
	}
	text := s.Table([]string{"SLOT", "CVM", "PLATFORM", "INSTANCE", "COMPOSE HASH", "REVISION", "VIP", "ATTESTED", "NOW"}, rows)
	switch {
	case asked && ready > 0:
		text += fmt.Sprintf("%d of %d are bound by the leader and let in when they attest the next time: `cadre admission list %s`\n", ready, len(list), name)
	case ready > 0:
		text += fmt.Sprintf("%d of %d can be adopted: compare instance and compose hash with your own list, then name a --reason\n", ready, len(list))
	default:
		text += "none can be adopted now\n"
	}
	return text
}

// Leaving says for which slots that a spec removes their disks matter: they are held for them, or lose
// them; would: once that is confirmed.
func Leaving(s Style, held []string, lost, would bool) string {
	slots := strings.Join(held, ", ")
	switch {
	case len(held) == 0:
		return ""
	case !lost:
		return s.Line("held, blocked(delete_disks): "+slots+" would be deleted, with the data of their disks: to give the data up, apply with --delete-disks --reason WHY", Warn)
	case would:
		return s.Line("the disks of "+slots+" would be given up: everything on them would be lost permanently", Bad)
	}
	return s.Line("the disks of "+slots+" are given up: everything on them is lost permanently", Bad)
}
