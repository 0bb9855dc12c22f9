package dashboard

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client/format"
	"cadre.dev/core/policy"
)

type admissionRow struct {
	Slot, Path, Boot, Revision, TCB, Root, Last, Why string
	// On is the keyed hash of the machine, and the other Slots on it.
	On                          string
	State                       mark
	Machine                     tone
	Attested, Reattest, Expires time.Time
}

func (r admissionRow) MachineGlyph() string { return glyphs[r.Machine] }

type admissionsModel struct {
	Rows     []admissionRow
	Pager    pager
	Admitted bar
	Buttons  []button
}

func admissionChoices(chosen string) []choice {
	return choices(chosen, "", "All states", slotsNeedAttention, "Needs attention", string(policy.StateAdmitted), "Admitted", string(policy.StateReattest), "Re-attest",
		string(policy.StateDenied), "Denied", string(policy.StateExpired), "Expired", string(policy.StateNone), "None")
}

func admissionsOf(list []policy.AdmissionStatus, f filter, now time.Time) admissionsModel {
	m := admissionsModel{Buttons: []button{{Text: "Approve a revision", Path: actPath("approve", "")}}}
	var chosen []policy.AdmissionStatus
	for _, a := range list {
		if a.State == policy.StateAdmitted {
			m.Admitted.N++
		}
		attention := a.State != policy.StateAdmitted || a.Code != ""
		if f.State != "" && f.State != string(a.State) && (f.State != slotsNeedAttention || !attention) {
			continue
		}
		if f.matches(a.Slot, a.Group, string(a.State), a.BootID, a.InstanceID, a.Revision, a.TCBStatus, string(a.Code), a.Why) {
			chosen = append(chosen, a)
		}
	}
	m.Admitted.Of = len(list)
	m.Admitted.Tone = ratio(m.Admitted.N, m.Admitted.Of).Tone
	page, pager := paged(chosen, f, "admissions")
	m.Pager = pager
	for _, a := range page {
		m.Rows = append(m.Rows, admissionOf(a, now))
	}
	return m
}

func admissionOf(a policy.AdmissionStatus, now time.Time) admissionRow {
	row := admissionRow{
		Slot: a.Slot, Path: slotPath(a.Slot), State: admissionMark(a.State), Boot: format.Short(a.BootID), Revision: numbered(a.Revision, a.Number),
		Attested: a.AttestedAt, Reattest: a.ReattestBy, Expires: a.ExpiresAt, Root: "Intel", TCB: a.TCBStatus, Machine: warn,
	}
	if row.On = fmt.Sprintf("%.16s", a.Machine); len(a.SharesMachine) > 0 {
		row.On += ", shared with " + strings.Join(a.SharesMachine, ", ")
	}
	switch {
	case a.Simulated:
		row.Root = "SIMULATED"
	case a.BootID == "":
		row.Root = ""
	}
	switch {
	case a.TCBOutOfDateSoon && a.TCBOutOfDateAt.IsZero():
		row.TCB += ", not by Intel's early set"
	case a.TCBOutOfDateSoon:
		row.TCB += ", until about " + a.TCBOutOfDateAt.UTC().Format(time.DateOnly)
	case a.TCBStatus == "UpToDate":
		row.Machine = good
	case a.TCBEnds.After(now):
		row.TCB += fmt.Sprintf(", ends in %d days", int(a.TCBEnds.Sub(now)/(24*time.Hour)))
	}
	if a.Code != "" {
		row.Why = strings.TrimSuffix(string(a.Code)+": "+a.Why, ": ")
	}
	if d := a.Last; d != nil {
		row.Last = strings.TrimSpace(string(d.What) + " " + string(d.Code))
	}
	return row
}
