package truncate

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Bounds in bytes of JSON, so that a text full of quotes or control characters fits too. Together
// they stay below the bounds in the table of records.
const (
	// line bounds one reason or message.
	line = 1 << 10
	// page bounds a message about a whole group.
	page = 4 << 10
	// word bounds a one-word value from an agent or a platform.
	word = 256
	// holds, conditions and candidates bound lists: the first elements are the most important ones.
	holds      = 8
	conditions = 16
	candidates = 64
)

const mark = "..."

// Line truncates a reason or message.
func Line(text string) string { return Text(text, line) }

// Page truncates a message about a whole group.
func Page(text string) string { return Text(text, page) }

// Text truncates text at a character so that its JSON has at most limit bytes within the quotes. A
// truncated text ends with dots. Invalid UTF-8 becomes U+FFFD.
func Text(text string, limit int) string {
	// Each byte of text needs at least one byte of JSON, so later bytes cannot fit.
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

// jsonLen returns the maximum number of bytes that encoding/json makes of r.
func jsonLen(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == 0x7f:
		return 6
	}
	return utf8.RuneLen(r)
}

// Instance truncates the state of one Slot for its record.
func Instance(s group.InstanceStatus) group.InstanceStatus {
	s.Reason, s.LastRefusal = Line(s.Reason), Line(s.LastRefusal)
	s.State = group.SlotState(Text(string(s.State), word))
	s.Node, s.NodeName, s.Region, s.OwnInstanceType = "", "", "", "" // an older coordinator could not read them; answers of the API come from a plan
	for _, text := range []*string{&s.Health, &s.Role, &s.PlatformStatus, &s.Phase} {
		*text = Text(*text, word)
	}
	s.Holds = slices.Clone(s.Holds[:min(len(s.Holds), holds)])
	for i := range s.Holds {
		s.Holds[i].Message = Text(s.Holds[i].Message, line/2)
	}
	return s
}

// Status truncates the state of a group for its record, and removes the Instances.
func Status(s group.Status) group.Status {
	s.Instances = nil
	s.Message = Page(s.Message)
	s.Conditions = slices.Clone(s.Conditions[:min(len(s.Conditions), conditions)])
	for i := range s.Conditions {
		s.Conditions[i].Reason, s.Conditions[i].Message = Text(s.Conditions[i].Reason, word), Page(s.Conditions[i].Message)
	}
	return s
}

// Operation truncates op for its record. The best candidates come first.
func Operation(op operation.Operation) operation.Operation {
	op.Reason, op.Before.Quorum = Line(op.Reason), Page(op.Before.Quorum)
	op.Failure.Signature = Line(op.Failure.Signature)
	op.Call.BootErrorBefore, op.Call.Correlation = Line(op.Call.BootErrorBefore), Line(op.Call.Correlation)
	op.Overridden = slices.Clone(op.Overridden[:min(len(op.Overridden), holds)])
	for i := range op.Overridden {
		op.Overridden[i].By, op.Overridden[i].Reason = Text(op.Overridden[i].By, word), Text(op.Overridden[i].Reason, line/2)
	}
	if t := op.Transfer; t != nil && len(t.Candidates) > candidates {
		shorter := *t
		shorter.Candidates = slices.Clone(t.Candidates[:candidates])
		op.Transfer = &shorter
	}
	return op
}

// Rollout truncates r for its record.
func Rollout(r operation.Rollout) operation.Rollout {
	r.Reason = Page(r.Reason)
	if r.Back != nil {
		back := *r.Back
		back.Verdict.Reason = Page(back.Verdict.Reason)
		r.Back = &back
	}
	for _, text := range []*string{&r.By, &r.Request, &r.RetriedBy, &r.RetryRequest} {
		*text = Text(*text, word)
	}
	return r
}
