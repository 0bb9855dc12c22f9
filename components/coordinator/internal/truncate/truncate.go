package truncate

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Bounds in bytes of JSON, so that a text full of quotes or control characters fits too.
// Together they stay below the bounds in the table of records.
const (
	// line bounds one reason or message.
	line = 1 << 10
	// page bounds a message about a whole group.
	page = 4 << 10
	// word bounds what is one word of an agent or a platform.
	word = 256
	// holds, conditions and candidates bound lists: the first ones tell most.
	holds      = 8
	conditions = 16
	candidates = 64
)

const mark = "..."

// Line is text as a record has one reason or message.
func Line(text string) string { return Text(text, line) }

// Page is text as a record has a message about a whole group.
func Page(text string) string { return Text(text, page) }

// Text is text, cut where a character ends so that its JSON has at most limit bytes
// within the quotes; what was cut ends with dots. Bytes that are no UTF-8 become U+FFFD.
func Text(text string, limit int) string {
	// No byte has less than one of JSON: what comes after these does not fit whatever it is.
	text = strings.ToValidUTF8(text[:min(len(text), limit+utf8.UTFMax)], "\uFFFD")
	used, room := 0, 0
	for i, r := range text {
		if used += jsonLen(r); used > limit {
			return text[:room] + mark
		}
		if used <= limit-len(mark) {
			room = i + utf8.RuneLen(r)
		}
	}
	return text
}

// jsonLen is how many bytes encoding/json makes of r at most.
func jsonLen(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == 0x7f:
		return 6
	}
	return utf8.RuneLen(r)
}

// Instance is the state of one Slot as its record may have it.
func Instance(s group.InstanceStatus) group.InstanceStatus {
	s.Reason, s.LastRefusal = Line(s.Reason), Line(s.LastRefusal)
	s.State = group.SlotState(Text(string(s.State), word))
	for _, text := range []*string{&s.Health, &s.Role, &s.PlatformStatus, &s.Phase} {
		*text = Text(*text, word)
	}
	s.Holds = slices.Clone(s.Holds[:min(len(s.Holds), holds)])
	for i := range s.Holds {
		s.Holds[i].Message = Text(s.Holds[i].Message, line/2)
	}
	return s
}

// Status is the state of a group as its record may have it, without the Instances.
func Status(s group.Status) group.Status {
	s.Instances = nil
	s.Message = Page(s.Message)
	s.Conditions = slices.Clone(s.Conditions[:min(len(s.Conditions), conditions)])
	for i := range s.Conditions {
		s.Conditions[i].Reason, s.Conditions[i].Message = Text(s.Conditions[i].Reason, word), Page(s.Conditions[i].Message)
	}
	return s
}

// Operation is op as its record may have it. The best candidates are the first ones.
func Operation(op operation.Operation) operation.Operation {
	op.Reason, op.Before.Quorum = Line(op.Reason), Page(op.Before.Quorum)
	op.Call.BootErrorBefore, op.Call.Correlation = Line(op.Call.BootErrorBefore), Line(op.Call.Correlation)
	if t := op.Transfer; t != nil && len(t.Candidates) > candidates {
		shorter := *t
		shorter.Candidates = slices.Clone(t.Candidates[:candidates])
		op.Transfer = &shorter
	}
	return op
}

// Rollout is r as its record may have it.
func Rollout(r operation.Rollout) operation.Rollout {
	r.Reason = Page(r.Reason)
	for _, text := range []*string{&r.By, &r.Request, &r.RetriedBy, &r.RetryRequest} {
		*text = Text(*text, word)
	}
	return r
}
