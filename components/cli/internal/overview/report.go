package overview

import (
	"fmt"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// Severity is the urgency of a finding, in the words of the alerts.
type Severity string

const (
	// Page needs a person now.
	Page Severity = "page"
	// Ticket needs a person during the day.
	Ticket Severity = "ticket"
	// Note needs no person.
	Note Severity = "note"
)

// Finding is one thing that a person should know.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object is a coordinator, group, slot, operation or machine; the cluster's name for the whole.
	Object string `json:"object"`
	Text   string `json:"text"`
	// Command leads on; empty: Text has the way out, or there is nothing to do.
	Command string `json:"command,omitempty"`
	// Hold is the hold that waits for the person; empty: the finding is about no hold.
	Hold string `json:"hold,omitempty"`

	// kind names findings about slots that become one finding when there are many; empty: never.
	kind string
}

func finding(severity Severity, object, text, command string) Finding {
	return Finding{Severity: severity, Object: object, Text: text, Command: command}
}

// of gives a finding about a slot its kind.
func (f Finding) of(kind string) Finding {
	f.kind = kind
	return f
}

// joined has one finding in the place of more than three of one kind, severity and group. The other
// lists of a Report have each slot.
func joined(in []Finding) []Finding {
	type key struct {
		kind, group string
		severity    Severity
	}
	keyOf := func(f Finding) key {
		name, _, err := group.ParseSlot(f.Object)
		if err != nil {
			name = f.Object
		}
		return key{f.kind, name, f.Severity}
	}
	slots := map[key][]string{}
	for _, f := range in {
		if f.kind != "" {
			slots[keyOf(f)] = append(slots[keyOf(f)], f.Object)
		}
	}
	out := []Finding{}
	for _, f := range in {
		k := keyOf(f)
		all := slots[k]
		switch {
		case len(all) <= 3:
			out = append(out, f)
		case all[0] == f.Object:
			out = append(out, finding(f.Severity, k.group, fmt.Sprintf("%d slots, such as %s: %s", len(all), f.Object, f.Text), "cadre instance list "+k.group))
		}
	}
	return out
}

// Slot is a slot that is not available.
type Slot struct {
	Slot   string          `json:"slot"`
	State  group.SlotState `json:"state"`
	Reason string          `json:"reason,omitempty"`
	Since  *time.Time      `json:"since,omitempty"`
}

// Operation is an open operation.
type Operation struct {
	ID     string    `json:"id"`
	Slot   string    `json:"slot"`
	Kind   string    `json:"kind"`
	Phase  string    `json:"phase"`
	Actor  string    `json:"actor,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// Hold is a reason for which next steps of a group wait.
type Hold struct {
	Group   string   `json:"group"`
	Hold    string   `json:"hold"`
	Slots   []string `json:"slots"`
	Message string   `json:"message"`
}

// End is something with a date of its own.
type End struct {
	What string    `json:"what"`
	At   time.Time `json:"at"`
	Text string    `json:"text,omitempty"`
}

// Report is the state of a cluster, and the form of -o json: fields are added to it, and never
// change their meaning.
type Report struct {
	Cluster   string    `json:"cluster"`
	Simulated bool      `json:"simulated"`
	At        time.Time `json:"at"`
	// NeedsPerson: a finding is of severity page or ticket.
	NeedsPerson bool      `json:"needs_person"`
	Findings    []Finding `json:"findings"`
	// Leader is the slot that leads; empty: none, or unknown.
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
	// Version of this program; those of the coordinators are there.
	Version      string        `json:"version"`
	Coordinators []Coordinator `json:"coordinators"`
	Groups       []Group       `json:"groups"`
	// Unavailable are the slots that do not count as available.
	Unavailable []Slot            `json:"unavailable"`
	Operations  []Operation       `json:"operations"`
	Requests    []client.Asked    `json:"requests"`
	Holds       []Hold            `json:"holds"`
	Overrides   []client.Override `json:"overrides"`
	// Ends are the next ends of certificates, credentials, collateral, exceptions and machines.
	Ends []End `json:"ends"`
	// LastBackup is absent while the coordinators do not report it.
	LastBackup *time.Time `json:"last_backup,omitempty"`
	// Unread are the parts without an answer: nothing is known about them.
	Unread []string `json:"unread"`
}
