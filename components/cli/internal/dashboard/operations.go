package dashboard

import (
	"cmp"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/operation"
)

// operationsAnswer has the answers for the page of operations.
type operationsAnswer struct {
	operations []operation.Operation
	requests   []client.Asked
	overrides  []client.Override
}

type operationRow struct {
	ID, Slot, Path, Action, Actor, Revision, Reason, By string
	Phase                                               mark
	Began, Ended                                        time.Time
	// Until is the deadline of the phase; zero: none.
	Until time.Time
	// Marks settle an undecided platform call.
	Marks []button
}

type requestRow struct {
	ID, Kind, About, By, Reason string
	Since                       time.Time
	Cancel                      button
}

type operationsModel struct {
	Rows      []operationRow
	Pager     pager
	All       bool
	Requests  []requestRow
	Overrides []overrideRow
}

// operationsOf makes the page of operations. all: ended operations are among them.
func operationsOf(a operationsAnswer, all bool, f filter, now time.Time) operationsModel {
	m := operationsModel{All: all, Overrides: overrideRows(a.overrides)}
	var chosen []operation.Operation
	for _, o := range a.operations {
		if f.matches(o.ID, o.Slot, o.Group, string(o.Kind), string(o.Phase), string(o.Actor), o.Reason) {
			chosen = append(chosen, o)
		}
	}
	page, pager := paged(chosen, f, "operations")
	m.Rows, m.Pager = operationRows(page, now), pager
	for _, q := range a.requests {
		m.Requests = append(m.Requests, requestRow{
			ID: format.ShortRequest(q.ID), Kind: q.Kind, About: cmp.Or(q.Slot, q.Operation, q.Group), By: q.By, Reason: q.Reason, Since: q.At,
			Cancel: button{Text: "Cancel", Path: actPath("cancel", q.ID)},
		})
	}
	return m
}

func operationRows(list []operation.Operation, now time.Time) []operationRow {
	rows := make([]operationRow, 0, len(list))
	for _, o := range list {
		row := operationRow{
			ID: o.ID, Slot: o.Slot, Path: slotPath(o.Slot), Action: strings.ToLower(string(o.Kind)), Actor: string(o.Actor), Revision: format.Arrow(o.From, o.To),
			Reason: o.Reason, By: o.Request.By, Phase: phaseMark(o.Phase), Began: o.Times.Created, Ended: o.Times.Ended, Until: deadlineOf(o),
		}
		if !row.Until.IsZero() && row.Until.Before(now) {
			row.Phase = mark{row.Phase.Text + ", overdue", warn}
		}
		if o.Phase == operation.Acting && o.Call.Number > 0 && o.Call.Undecided() {
			row.Marks = []button{{Text: "Mark succeeded", Path: actPath("mark-succeeded", o.ID)}, {Text: "Mark failed", Path: actPath("mark-failed", o.ID), Harsh: true}}
		}
		rows = append(rows, row)
	}
	return rows
}

// deadlineOf is the deadline of the present phase; zero: none.
func deadlineOf(o operation.Operation) time.Time {
	switch o.Phase {
	case operation.Draining, operation.Drained:
		return o.Times.DrainBy
	case operation.Booting, operation.Joining, operation.Settling:
		return o.Times.HealthyBy
	case operation.Acting, operation.Done, operation.Aborted, operation.Failed:
	}
	return time.Time{}
}
