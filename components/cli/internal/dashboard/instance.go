package dashboard

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

// instanceAnswer has the answers for the page of an instance. explained is nil when the coordinators explain no
// admission, for the reason in unexplained.
type instanceAnswer struct {
	instance    client.Instance
	explained   *policy.Explanation
	unexplained error
}

type instanceModel struct {
	Slot, Group, GroupPath string
	State, Health          mark
	Since                  time.Time
	Why                    string
	Facts                  []fact
	Overrides              []overrideRow
	Holds                  []holdRow
	Buttons                []button
	Operations             []operationRow
	Decisions              []decisionRow
	Lineage                []group.Past
	Admission              mark
	AdmissionWhy           string
	Next                   []string
	Unexplained            string
}

type decisionRow struct {
	At             time.Time
	Verdict        mark
	Boot, By, What string
}

// maxRows bounds the shown records of one instance.
const maxRows = 30

func instanceOf(a instanceAnswer, now time.Time) instanceModel {
	st := a.instance.Status
	m := instanceModel{
		Slot: st.Slot, Group: st.Group, GroupPath: groupPath(st.Group), State: stateMark(st), Health: healthMark(st.Health), Since: sinceOf(st.Since),
		Why: format.Why(st), Buttons: slotButtons(st), Lineage: a.instance.Lineage,
	}
	for _, f := range []struct{ name, value string }{
		{"Role", format.Role(st)}, {"Revision", format.Arrow(st.Observed, st.Assigned)}, {"Phase", strings.ToLower(st.Phase)}, {"Operation", st.Operation},
		{"Platform", st.PlatformStatus}, {"Node", format.Node(st)}, {"VIP", st.VIP}, {"App ID", st.AppID}, {"Instance ID", st.InstanceID},
		{"VM UUID", st.VMUUID}, {"Boot", st.BootID}, {"Env of its own", st.OwnEnv}, {"Size of its own", st.OwnInstanceType},
	} {
		if f.value != "" {
			m.Facts = append(m.Facts, fact{Name: f.name, Value: mark{f.value, plain}})
		}
	}
	if h := st.Heals; h != nil {
		m.Facts = append(m.Facts, fact{Name: "Healing", Value: mark{fmt.Sprintf("%d attempts in a row, the last one a %s: %s", h.Attempts+h.Services, strings.ToLower(h.LastKind), h.LastWhy), warn}})
	}
	for _, o := range []struct {
		kind client.OverrideKind
		on   *group.Override
	}{{client.OverrideDrain, st.Drain}, {client.OverrideProtect, st.Protection}, {client.OverrideExclude, st.Exclusion}} {
		if o.on != nil {
			m.Overrides = append(m.Overrides, overrideRows([]client.Override{{Kind: o.kind, Name: st.Slot, From: o.on.From, Reason: o.on.Reason, By: o.on.By, Until: o.on.Until}})...)
		}
	}
	for _, h := range st.Holds {
		m.Holds = append(m.Holds, holdRow{Predicate: h.Predicate, Messages: []string{h.Message}, Clears: clearedBy(h.Predicate, st.Group, st.Slot)})
	}
	m.Operations = operationRows(a.instance.Operations[:min(len(a.instance.Operations), maxRows)], now)
	for _, d := range a.instance.Admissions[:min(len(a.instance.Admissions), maxRows)] {
		row := decisionRow{At: d.AdmittedAt, Verdict: mark{"admitted", good}, Boot: format.Short(d.BootID), By: d.By, What: "revision " + format.Short(d.Revision)}
		if d.Code != "" {
			row.Verdict, row.What = mark{"refused", bad}, strings.TrimSuffix(string(d.Code)+": "+d.Message, ": ")
			if at, err := time.Parse(time.RFC3339Nano, d.At); err == nil {
				row.At = at
			}
		}
		m.Decisions = append(m.Decisions, row)
	}
	switch {
	case a.explained != nil:
		m.Admission = admissionMark(a.explained.State)
		m.AdmissionWhy = strings.TrimSuffix(string(a.explained.Code)+": "+a.explained.Why, ": ")
		m.Next = a.explained.Next
	case a.unexplained != nil:
		m.Unexplained = a.unexplained.Error()
	}
	return m
}

func slotButtons(st group.InstanceStatus) []button {
	pair := func(on *group.Override, set, undo string, harsh bool) button {
		if on != nil {
			return button{Text: capital(undo), Path: actPath(undo, st.Slot)}
		}
		return button{Text: capital(set), Path: actPath(set, st.Slot), Harsh: harsh}
	}
	return []button{
		pair(st.Drain, "drain", "undrain", true), pair(st.Protection, "protect", "unprotect", false), pair(st.Exclusion, "exclude", "include", false),
		{Text: "Restart", Path: actPath("restart", st.Slot), Harsh: true},
	}
}
