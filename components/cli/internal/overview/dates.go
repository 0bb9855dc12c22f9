package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/policy"
)

// ends lists the dates, soonest first: the earliest of the members' credentials, and each date of
// machines, collateral and exceptions.
func ends(f Facts) []End {
	out := []End{}
	var first policy.AdmissionStatus
	for _, a := range f.Admissions {
		if !a.ExpiresAt.IsZero() && (first.ExpiresAt.IsZero() || a.ExpiresAt.Before(first.ExpiresAt)) {
			first = a
		}
	}
	if !first.ExpiresAt.IsZero() {
		out = append(out, End{"credentials of " + first.Slot, first.ExpiresAt, "the earliest of all members; renewed automatically"})
	}
	for _, a := range slices.Concat(f.Machines, f.Admissions) {
		switch {
		case a.TCBOutOfDateSoon && !a.TCBOutOfDateAt.IsZero():
			out = append(out, End{"machine of " + a.Slot, a.TCBOutOfDateAt, "about then Intel calls it out of date"})
		case !a.TCBEnds.IsZero():
			out = append(out, End{"machine of " + a.Slot, a.TCBEnds, a.TCBStatus + ", tolerated until then"})
		}
	}
	for _, c := range f.TCB.Collateral {
		if at := earlier(c.TCBUntil, c.QEUntil); !at.IsZero() {
			out = append(out, End{"collateral of " + c.FMSPC, at, "renewed automatically, unless it comes from a bundle"})
		}
	}
	for _, e := range f.TCB.Exceptions {
		if e.Problem == "" && !e.Until.IsZero() {
			out = append(out, End{"exception " + e.ID, e.Until, "machines that are " + e.Status})
		}
	}
	if !f.CAEnds.IsZero() {
		out = append(out, End{"CA of the cluster", f.CAEnds, ""})
	}
	slices.SortStableFunc(out, func(a, b End) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.What, b.What))
	})
	return out
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func ofAdmissions(f Facts) (out []Finding) {
	for _, a := range f.Admissions {
		explain := "cadre admission explain " + a.Slot
		switch a.State {
		case policy.StateDenied:
			out = append(out, finding(Page, a.Slot, fmt.Sprintf("its credentials will not be renewed: %s: %s", a.Code, a.Why), explain).of("denied"))
			continue
		case policy.StateExpired:
			out = append(out, finding(Page, a.Slot, "its credentials ended on "+day(a.ExpiresAt), explain).of("expired"))
			continue
		case policy.StateReattest:
			out = append(out, finding(Note, a.Slot, fmt.Sprintf("it must show new evidence: %s: %s", a.Code, a.Why), explain).of("evidence"))
		case policy.StateAdmitted, policy.StateNone:
		}
		if left := a.ExpiresAt.Sub(f.Now); !a.ExpiresAt.IsZero() && left < credentialsLeft {
			out = append(out, finding(Page, a.Slot, fmt.Sprintf("its credentials are not renewed, and end in %s", round(max(left, 0))), explain).of("renewal"))
		}
	}
	return out
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// ofDates is about machines, collateral, exceptions, the CA and backups. A denied member has a
// finding already.
func ofDates(f Facts) (out []Finding) {
	const hosts = "cadre admission list"
	for _, a := range slices.Concat(f.Machines, f.Admissions) {
		soon, tolerated := a.TCBOutOfDateAt.Sub(f.Now), a.TCBEnds.Sub(f.Now)
		switch {
		case a.State == policy.StateDenied || a.State == policy.StateExpired:
		case !a.TCBEnds.IsZero() && tolerated <= 0:
			out = append(out, finding(Page, a.Slot, fmt.Sprintf("its machine is %s, and the tolerance ended on %s: update the host", a.TCBStatus, day(a.TCBEnds)), hosts).of("machine"))
		case !a.TCBEnds.IsZero():
			severity := Note
			if tolerated < machineLeft {
				severity = Ticket
			}
			out = append(out, finding(severity, a.Slot, fmt.Sprintf("its machine is %s, tolerated until %s: update the host before", a.TCBStatus, day(a.TCBEnds)), hosts).of("machine"))
		case a.TCBOutOfDateSoon && a.TCBOutOfDateAt.IsZero():
			out = append(out, finding(Ticket, a.Slot, "Intel's early set calls its machine out of date: plan the update of the host", hosts).of("machine"))
		case a.TCBOutOfDateSoon:
			severity := Note
			if soon < machineSoon {
				severity = Ticket
			}
			out = append(out, finding(severity, a.Slot, fmt.Sprintf("Intel will call its machine out of date about %s: plan the update of the host", day(a.TCBOutOfDateAt)), hosts).of("machine"))
		}
	}
	for _, c := range f.TCB.Collateral {
		at := earlier(c.TCBUntil, c.QEUntil)
		if left := at.Sub(f.Now); !at.IsZero() && left > 0 && left < collateralLeft {
			out = append(out, finding(Ticket, c.FMSPC, fmt.Sprintf("the collateral of this family of machines ends on %s, and no newer one arrived", day(at)), "cadre admission tcb list"))
		}
	}
	if p := f.TCB.ChainProblem; p != "" {
		out = append(out, finding(Page, f.Cluster, "the chain of decisions about machines was edited: "+p, "cadre admission tcb list"))
	}
	for _, e := range f.TCB.Exceptions {
		if left := e.Until.Sub(f.Now); e.Problem == "" && left > 0 && left < exceptionLeft {
			out = append(out, finding(Ticket, e.ID, fmt.Sprintf("the exception for machines that are %s ends on %s", e.Status, day(e.Until)), "cadre admission tcb list"))
		}
	}
	if left := f.CAEnds.Sub(f.Now); !f.CAEnds.IsZero() && left < caLeft {
		out = append(out, finding(Ticket, f.Cluster, "the CA of the cluster ends on "+day(f.CAEnds), ""))
	}
	if f.Backup != nil && f.Now.Sub(*f.Backup) > backupFor {
		// A new cluster has no backup yet, which calls no person.
		found := finding(Note, f.Cluster, "no backup was ever taken", "cadre cluster backup -o FILE")
		if !f.Backup.IsZero() {
			found = finding(Ticket, f.Cluster, fmt.Sprintf("the last backup is %s old", round(f.Now.Sub(*f.Backup))), "cadre cluster backup -o FILE")
		}
		out = append(out, found)
	}
	return out
}
