package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// The times are those of docs/guides/alerts.yaml.
const (
	// belowFor is how long a slot is away before a person is needed.
	belowFor = 15 * time.Minute
	// operationFor is how long an operation may last, and callFor a platform call.
	operationFor = time.Hour
	callFor      = 15 * time.Minute
	// pausedFor is how long a pause or freeze may last.
	pausedFor = 24 * time.Hour
	// credentialsLeft is less than the time that renewal keeps ahead.
	credentialsLeft = 45 * time.Minute
	// machineLeft and machineSoon are the times to update a host.
	machineLeft = 30 * 24 * time.Hour
	machineSoon = 90 * 24 * time.Hour
	// collateralLeft is less than coordinators with a way to Intel's service ever have.
	collateralLeft = 7 * 24 * time.Hour
	exceptionLeft  = 7 * 24 * time.Hour
	caLeft         = 90 * 24 * time.Hour
	// backupFor is how old the last backup may be.
	backupFor = 48 * time.Hour
)

// Assess judges the facts. Findings come by severity, then by object.
func Assess(f Facts) Report {
	r := Report{
		Cluster: f.Cluster, Simulated: f.Simulated, At: f.Now, Version: f.Version, Coordinators: list(f.Coordinators), Groups: list(f.Groups),
		Requests: list(f.Requests), Overrides: list(f.Overrides), LastBackup: f.Backup, Unread: list(f.Unread),
		Unavailable: []Slot{}, Operations: []Operation{}, Holds: holds(f.Slots), Findings: []Finding{},
	}
	for _, c := range f.Coordinators {
		if c.Answered && c.Term >= r.Term {
			r.Leader, r.Term = cmp.Or(c.Leader, r.Leader), c.Term
		}
	}
	for _, s := range f.Slots {
		if !counts(s) {
			r.Unavailable = append(r.Unavailable, Slot{Slot: s.Slot, State: s.State, Reason: cmp.Or(s.Reason, s.LastRefusal), Since: s.Since})
		}
	}
	for _, o := range f.Operations {
		if !o.Phase.Ended() {
			r.Operations = append(r.Operations, Operation{ID: o.ID, Slot: o.Slot, Kind: string(o.Kind), Phase: string(o.Phase), Actor: string(o.Actor), Reason: o.Reason, Since: o.Times.Created})
		}
	}
	r.Ends = ends(f)
	for _, some := range [][]Finding{ofCoordinators(f, r), ofGroups(f), ofSlots(f), ofHolds(r.Holds), ofOperations(f), ofOverrides(f), ofAdmissions(f), ofDates(f)} {
		r.Findings = append(r.Findings, some...)
	}
	for _, u := range f.Unread {
		r.Findings = append(r.Findings, finding(Ticket, f.Cluster, "no answer: "+u, "cadre cluster status"))
	}
	r.Findings = joined(r.Findings)
	order := map[Severity]int{Page: 0, Ticket: 1, Note: 2}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Severity], order[b.Severity]), strings.Compare(a.Object, b.Object))
	})
	r.NeedsPerson = slices.ContainsFunc(r.Findings, func(x Finding) bool { return x.Severity != Note })
	return r
}

// list is never null in JSON.
func list[T any](in []T) []T { return append([]T{}, in...) }

// counts reports whether nothing about the slot needs a word: it is available, or an operator wants
// it drained.
func counts(s group.InstanceStatus) bool {
	return s.State == group.SlotAvailable || s.State == group.SlotDrained && s.Drain != nil || s.State == group.SlotStopped
}

func ofCoordinators(f Facts, r Report) (out []Finding) {
	answered, untrusted := 0, false
	versions := map[string]bool{}
	for _, c := range f.Coordinators {
		untrusted = untrusted || c.Untrusted
		switch {
		case c.Untrusted:
			out = append(out, finding(Page, c.Name, "it does not prove itself: "+c.Problem, "cadre cluster status"))
		case c.Refused:
			answered++
			out = append(out, finding(Ticket, c.Name, "it refuses the token of the context: "+c.Problem, ""))
		case !c.Answered:
			out = append(out, finding(Ticket, c.Name, "it does not answer: "+cmp.Or(c.Problem, "unknown cause"), "cadre cluster status"))
		case c.Problem != "":
			out = append(out, finding(Ticket, c.Name, "it answers, and its proof is missing: "+c.Problem, "cadre cluster status"))
		}
		if c.Answered {
			answered++
			versions[c.Version] = true
		}
	}
	all := len(f.Coordinators)
	if answered < all/2+1 {
		out = append(out, finding(Page, f.Cluster, fmt.Sprintf("%d of %d coordinators answer, less than a majority: plans, healing and rollouts wait; workloads continue", answered, all), "cadre cluster status"))
	}
	switch {
	case f.Halted != "":
		out = append(out, finding(Page, f.Cluster, "halted: "+f.Halted, "cadre cluster accept-restore"))
	case len(versions) > 0 && r.Leader == "":
		out = append(out, finding(Page, f.Cluster, "no coordinator leads: plans, healing and rollouts wait; workloads continue", "cadre cluster status"))
	}
	names := make([]string, 0, len(versions))
	for v := range versions {
		names = append(names, v)
	}
	slices.Sort(names)
	switch {
	case len(names) > 1:
		out = append(out, finding(Ticket, f.Cluster, "the coordinators run different versions: "+strings.Join(names, ", "), ""))
	case len(names) == 1 && f.Version != "" && names[0] != f.Version:
		out = append(out, finding(Note, f.Cluster, fmt.Sprintf("cadre is version %s, the coordinators run %s", f.Version, names[0]), "cadre version"))
	}
	return out
}

// conditionRule is the urgency of an unhealthy condition; the status of a healthy one is given.
type conditionRule struct {
	healthy  bool
	severity Severity
}

// conditionRules has the conditions of docs/reference/reason-codes.md. Counts of the group, states of
// slots and dates of machines have findings of their own.
var conditionRules = map[string]conditionRule{
	"Quorum": {true, Page}, "AgentsReporting": {true, Page}, "UnexplainedMembers": {false, Page}, "OneBootPerSlot": {true, Page}, "DisksLost": {false, Page},
	"Observed": {true, Ticket}, "SpecValid": {true, Ticket}, "RecordsReadable": {true, Ticket}, "Reported": {true, Ticket}, "Reconciled": {true, Ticket},
	"AdmissionPolicy": {true, Ticket}, "MachinesApart": {true, Ticket}, "MachinesUnchanged": {true, Note}, "Orphans": {false, Ticket}, "Order": {true, Ticket}, "Flapping": {false, Note},
	"Placement": {true, Note}, "VotersShareNode": {false, Note},
	"Available": {}, "Updated": {}, "Progressing": {}, "Failed": {}, "Quarantined": {}, "Simulated": {}, "MachinesUpToDate": {}, "MachinesStayUpToDate": {},
}

func ofGroups(f Facts) (out []Finding) {
	for _, g := range f.Groups {
		drained, away := 0, 0
		for _, s := range f.Slots {
			switch {
			case s.Group != g.Name:
			case !counts(s):
				away++
			case s.State == group.SlotDrained, s.State == group.SlotStopped:
				drained++
			}
		}
		if g.Available+drained < g.Replicas && away == 0 && !g.Deleting {
			out = append(out, finding(Ticket, g.Name, fmt.Sprintf("%d of %d slots are available, and no slot has the reason: %s", g.Available, g.Replicas, g.Message), "cadre group describe "+g.Name))
		}
		switch operation.RolloutState(g.RolloutState) {
		case operation.RolledBack:
			out = append(out, failed(finding(Ticket, g.Name, "the rollout was rolled back, and waits for an operator: "+g.Message, "cadre rollout status "+g.Name)))
		case operation.FailedState:
			out = append(out, failed(finding(Page, g.Name, "the rollout failed, and waits for an operator: "+g.Message, "cadre rollout status "+g.Name)))
		case operation.Running, operation.BakingState, operation.PausedState, operation.Complete, operation.PartitionReached, operation.SupersededState, operation.RollingBack:
		}
		if g.Deleting {
			out = append(out, finding(Note, g.Name, "the group is being deleted: "+g.Message, "cadre group describe "+g.Name))
		}
		for _, c := range g.Conditions {
			rule, known := conditionRules[c.Type]
			if !known || rule.severity == "" || c.Status == rule.healthy {
				continue
			}
			text := c.Type + " is true"
			if !c.Status {
				text = c.Type + " is false"
			}
			out = append(out, finding(rule.severity, g.Name, text+": "+cmp.Or(c.Message, c.Reason), "cadre group describe "+g.Name))
		}
	}
	return out
}

// failed gives a finding the hold of all steps after a failed rollout.
func failed(f Finding) Finding {
	f.Hold = rollout.HoldRolloutFailed
	return f
}

func ofSlots(f Facts) (out []Finding) {
	busy := map[string]bool{}
	for _, o := range f.Operations {
		busy[o.Slot] = busy[o.Slot] || !o.Phase.Ended()
	}
	for _, s := range f.Slots {
		if counts(s) {
			continue
		}
		text := string(s.State)
		if why := cmp.Or(s.Reason, s.LastRefusal); why != "" {
			text += ": " + why
		}
		if node := format.Node(s); node != "" {
			text += "; on node " + node
		}
		severity, command := Note, "cadre instance describe "+s.Slot
		switch s.State {
		case group.SlotQuarantined:
			severity, text = Page, text+"; healing gave it up: restart it, or replace it"
		case group.SlotVanished, group.SlotOutOfSet, group.SlotFailed:
			severity, command = Page, "cadre rollout plan "+s.Group
		case group.SlotNotDrained:
			severity, text = Ticket, text+"; the drain that an operator asked for did not succeed"
		case group.SlotTerminating, group.SlotDeleting:
		case group.SlotAvailable, group.SlotDraining, group.SlotDrained, group.SlotStopping, group.SlotStopped, group.SlotCreating, group.SlotUpdating, group.SlotRefreshing, group.SlotRestarting, group.SlotReplacing,
			group.SlotJoining, group.SlotMissing, group.SlotFlapping, group.SlotSettling, group.SlotBooting, group.SlotUnavailable:
			if away := awayFor(s, f.Now); !busy[s.Slot] && away > belowFor {
				severity = Page
				text = fmt.Sprintf("%s, for %s and no operation is open", text, round(away))
			}
		}
		out = append(out, finding(severity, s.Slot, text, command).of(string(s.State)))
	}
	return out
}

func awayFor(s group.InstanceStatus, now time.Time) time.Duration {
	if s.Since == nil {
		return 0
	}
	return now.Sub(*s.Since)
}

func ofOperations(f Facts) (out []Finding) {
	for _, o := range f.Operations {
		age := f.Now.Sub(o.Times.Created)
		acting := f.Now.Sub(o.Entered[operation.Acting])
		switch {
		case o.Phase.Ended() || o.Kind == operation.Drain || o.StaysStopped():
		case o.Phase == operation.Acting && acting > callFor:
			out = append(out, finding(Page, o.Slot, fmt.Sprintf("the platform call of %s does not end for %s: %s", o.Kind, round(acting), cmp.Or(o.Reason, "the platform is busy, or the effect is unknown")), "cadre operation show "+o.ID))
		case age > operationFor:
			out = append(out, finding(Ticket, o.Slot, fmt.Sprintf("%s is %s and has lasted for %s: %s", o.Kind, o.Phase, round(age), o.Reason), "cadre operation show "+o.ID))
		}
	}
	return out
}

func ofOverrides(f Facts) (out []Finding) {
	for _, o := range f.Overrides {
		long := (o.Kind == client.OverrideFreeze || o.Kind == client.OverridePause) && !o.At.IsZero() && f.Now.Sub(o.At) > pausedFor
		if long {
			out = append(out, finding(Ticket, cmp.Or(o.Name, f.Cluster), fmt.Sprintf("a %s has lasted for %s: %s", o.Kind, round(f.Now.Sub(o.At)), o.Reason), "cadre overrides"))
		}
	}
	return out
}

// round shows a time as people say it.
func round(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d/time.Hour))
	}
	return fmt.Sprintf("%d minutes", int(d/time.Minute))
}
