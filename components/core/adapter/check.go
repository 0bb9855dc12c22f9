package adapter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cadre.dev/core/slotname"
)

// maxFaults bounds the faults that are named; the rest is counted.
const maxFaults = 16

// faults collects the faults of one document, each under the path of its field.
type faults struct {
	named []error
	more  int
}

func (f *faults) add(path, format string, args ...any) {
	if len(f.named) == maxFaults {
		f.more++
		return
	}
	f.named = append(f.named, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

func (f *faults) all() error {
	if f.more > 0 {
		return errors.Join(append(f.named, fmt.Errorf("and %d more faults", f.more))...)
	}
	return errors.Join(f.named...)
}

// Check returns all faults of m in one error, each with the path of its field; nil: m is sound, though
// it may still be wrong about the workload.
func (m Member) Check() error {
	var f faults
	m.check(&f)
	return f.all()
}

func (m Member) check(f *faults) {
	m.checkTexts(f)
	m.checkRole(f)
	m.checkSet(f)
}

// CheckOf is Check for the member of the Slot self in a workload whose setting voters is votes: each
// name is a Slot of self's group.
func (m Member) CheckOf(self string, votes bool) error {
	var f faults
	m.check(&f)
	name := func(path, name string) {
		if name != "" && !sibling(self, name) {
			f.add(path, "%.64q is no slot of the group of %s: members are named as their slots", name, self)
		}
	}
	for _, list := range m.lists() {
		for i, one := range list.names {
			name(list.at(i), one)
		}
	}
	name("leader", m.Leader)
	switch {
	case m.Role == RoleLeader && m.Leader != "" && m.Leader != self:
		f.add("leader", "is %.64q, though role says that this member, %s, leads", m.Leader, self)
	case m.Role != RoleLeader && m.Role != RoleUnknown && m.Leader == self:
		f.add("leader", "is this member, though role is %.64q", m.Role)
	}
	switch {
	case !votes && len(m.Voters) > 0:
		f.add("voters", "lists members, though the setting voters is false: set voters = true, or send no list")
	case votes && m.Ready && len(m.Voters) == 0:
		f.add("voters", "is empty, though the member is ready and the setting voters is true")
	case m.Role == RoleLearner && slices.Contains(m.Voters, self):
		f.add("voters", "lists this member, though its role is learner")
	}
	return f.all()
}

// list is a list of names and the path of its field.
type list struct {
	path  string
	names []string
}

func (l list) at(i int) string { return fmt.Sprintf("%s[%d]", l.path, i) }

func (m Member) lists() []list {
	return []list{{"voters", m.Voters}, {"learners", m.Learners}, {"followers", m.Followers}}
}

// checkTexts bounds every text and list.
func (m Member) checkTexts(f *faults) {
	for _, l := range m.lists() {
		f.list(l)
		for i, one := range l.names {
			if i < MaxMembers && slices.Contains(l.names[:i], one) {
				f.add(l.at(i), "repeats %.64q", one)
			}
		}
	}
	f.list(list{"busy", m.Busy})
	if len(m.MemberIDs) > MaxMembers {
		f.add("member_ids", "has %d entries, at most %d are allowed", len(m.MemberIDs), MaxMembers)
	}
	f.name("leader", m.Leader, false)
	f.name("version", m.Version, false)
	f.name("data_format", m.DataFormat, false)
	f.text("message", m.Message, MaxText)
	f.text("fault", m.Fault, MaxText)
	f.text("may_disrupt_reason", m.MayDisruptReason, MaxText)
}

// checkRole compares the statements about this member with each other.
func (m Member) checkRole(f *faults) {
	f.word("role", m.Role, RoleLeader, RoleFollower, RoleLearner, RoleNone, RoleUnknown)
	f.word("liveness", m.Liveness, Alive, Refused, Unknown)
	alive := m.Liveness == Alive
	switch {
	case m.Role == RoleLeader && !alive:
		f.add("role", "is leader, though liveness is %.64q: use unknown", m.Liveness)
	case m.Role == RoleLeader && m.Leader == "":
		f.add("leader", "is empty, though this member leads: name this member")
	}
	switch {
	case m.Ready && !alive:
		f.add("ready", "is true, though liveness is %.64q", m.Liveness)
	case m.Ready && m.Role == RoleUnknown:
		f.add("ready", "is true, though role is unknown")
	case !m.Ready && m.Message == "":
		f.add("message", "is empty, though ready is false: name the missing condition")
	}
	if m.CaughtUp != nil && *m.CaughtUp && !alive {
		f.add("caught_up", "is true, though liveness is %.64q: leave it out", m.Liveness)
	}
	if m.LagBytes != nil && *m.LagBytes < 0 {
		f.add("lag_bytes", "is %d: use a number from 0, or leave it out", *m.LagBytes)
	}
	switch {
	case m.MayDisrupt && !alive:
		f.add("may_disrupt", "is true, though liveness is %.64q", m.Liveness)
	case m.MayDisrupt && m.MayDisruptReason != "":
		f.add("may_disrupt_reason", "is set, though may_disrupt is true")
	case !m.MayDisrupt && m.MayDisruptReason == "":
		f.add("may_disrupt_reason", "is empty, though may_disrupt is false: say why")
	}
}

// checkSet compares the lists of members with each other.
func (m Member) checkSet(f *faults) {
	if m.Role == RoleNone && (m.Leader != "" || len(m.Voters)+len(m.Learners)+len(m.Followers) > 0) {
		f.add("role", "is none, though the answer names members")
	}
	for i, name := range m.Learners {
		if i < MaxMembers && slices.Contains(m.Voters, name) {
			f.add(fmt.Sprintf("learners[%d]", i), "%.64q is listed under voters, too", name)
		}
	}
	if len(m.Followers) > 0 && m.Role != RoleLeader {
		f.add("followers", "lists members, though role is %.64q: only a leader has followers", m.Role)
	}
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.MemberIDs)) {
		path, id := fmt.Sprintf("member_ids[%.64q]", name), m.MemberIDs[name]
		f.name(path, id, true)
		if !slices.Contains(m.Voters, name) && !slices.Contains(m.Learners, name) {
			f.add(path, "is neither a voter nor a learner")
		}
		if owner[id] != "" {
			f.add(path, "has the id of %.64q: ids are unique", owner[id])
		}
		owner[id] = name
	}
}

// Check returns all faults of r; nil: r is sound.
func (r TransferRequest) Check() error {
	var f faults
	f.name("expected_leader", r.ExpectedLeader, true)
	if len(r.Candidates) == 0 {
		f.add("candidates", "is empty: name the members that may lead next, best first")
	}
	f.list(list{"candidates", r.Candidates})
	return f.all()
}

// Check returns all faults of t; nil: t is sound.
func (t Transferred) Check() error {
	var f faults
	f.name("leader", t.Leader, true)
	return f.all()
}

// Check returns all faults of r; nil: r is sound.
func (r SetRequest) Check() error {
	var f faults
	f.word("do", r.Do, DoAdd, DoPromote, DoRemove)
	f.name("slot", r.Slot, true)
	f.name("member", r.Member, false)
	f.name("address", r.Address, false)
	return f.all()
}

func (f *faults) word(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(path, "%.64q is unknown: use one of %s", value, strings.Join(allowed, ", "))
	}
}

// list bounds a list of names.
func (f *faults) list(l list) {
	if len(l.names) > MaxMembers {
		f.add(l.path, "has %d entries, at most %d are allowed", len(l.names), MaxMembers)
	}
	for i, one := range l.names {
		f.name(l.at(i), one, true)
	}
}

// name is a text of at most MaxName bytes.
func (f *faults) name(path, value string, required bool) {
	if required && value == "" {
		f.add(path, "is empty")
	}
	f.text(path, value, MaxName)
}

func (f *faults) text(path, value string, limit int) {
	switch {
	case len(value) > limit:
		f.add(path, "has %d bytes, at most %d are allowed", len(value), limit)
	case !utf8.ValidString(value):
		f.add(path, "is not valid UTF-8")
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		f.add(path, "holds a control character, a line break or a character that is not printed")
	}
}

// sibling reports that name is a Slot of the group of self.
func sibling(self, name string) bool {
	own, _, err := slotname.Parse(self)
	of, _, other := slotname.Parse(name)
	return err == nil && other == nil && of == own
}

// Text is text as Message, Fault and MayDisruptReason take it: in one line, without characters that are
// not printed, and of at most MaxText bytes.
func Text(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || r == utf8.RuneError })
	out := strings.Join(words, " ")
	return strings.TrimSpace(strings.ToValidUTF8(out[:min(len(out), MaxText)], ""))
}
