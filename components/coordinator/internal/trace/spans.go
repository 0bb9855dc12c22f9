package trace

import (
	"crypto/sha256"
	"strconv"
	"time"

	"cadre.dev/core/operation"
)

// Span is one interval of a trace. Start and End are leaders' clocks.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte // a zero Parent: the span is the root of its trace
	Name       string
	Start, End time.Time
	// Failed has the reason of a failure; "": none.
	Failed     string
	Attributes []Attribute
}

// Attribute of a span. Values come from records, never from secrets.
type Attribute struct{ Key, Value string }

// OfRollout returns the root span of an ended rollout; ok is false while it runs.
func OfRollout(r operation.Rollout) (s Span, ok bool) {
	if r.EndedAt.IsZero() {
		return Span{}, false
	}
	s = Span{
		Trace: traceID(r.ID), ID: spanID(r.ID), Name: "rollout " + r.Group, Start: r.StartedAt, End: r.EndedAt,
		Attributes: attributes(
			"cadre.group", r.Group, "cadre.rollout", r.ID, "cadre.generation", strconv.FormatUint(r.Generation, 10),
			"cadre.revision.from", r.From, "cadre.revision.to", r.To, "cadre.state", string(r.State),
			"cadre.by", r.By, "cadre.request", r.Request,
		),
	}
	if r.State.Failed() {
		s.Failed = r.Reason
	}
	return s, true
}

// stages are the intervals of an Operation in the order of their phases. An Operation enters a phase
// again after a failed attempt; its record keeps the last time.
var stages = []struct {
	phase operation.Phase
	name  string
}{
	{operation.Draining, "drain"},
	{operation.Drained, "check of the quorum"},
	{operation.Acting, "platform call"},
	{operation.Booting, "boot and admission"},
	{operation.Joining, "join"},
	{operation.Settling, "settle"},
}

// OfOperation returns the span of an ended Operation, and then one span for each of its phases; nil
// while the Operation is open. The span belongs to the trace of its rollout, or has a trace of its
// own.
func OfOperation(op operation.Operation) []Span {
	if !op.Phase.Ended() {
		return nil
	}
	end := op.Times.Ended
	if end.IsZero() {
		end = op.Entered[op.Phase]
	}
	root := Span{
		Trace: traceID(op.ID), ID: spanID(op.ID), Name: string(op.Kind) + " " + op.Slot, Start: op.Times.Created, End: end,
		Attributes: attributes(
			"cadre.group", op.Group, "cadre.slot", op.Slot, "cadre.operation", op.ID, "cadre.rollout", op.Rollout,
			"cadre.actor", string(op.Actor), "cadre.phase", string(op.Phase), "cadre.revision.from", op.From, "cadre.revision.to", op.To,
			"cadre.request", op.Request.ID, "cadre.term", strconv.FormatUint(op.Term, 10),
		),
	}
	if op.Rollout != "" {
		root.Trace, root.Parent = traceID(op.Rollout), spanID(op.Rollout)
	}
	if op.Transfer != nil && op.Transfer.Made {
		root.Attributes = append(root.Attributes, attributes("cadre.leader.from", op.Transfer.ExpectedLeader, "cadre.leader.to", op.Transfer.To)...)
	}
	if op.Phase == operation.Failed {
		root.Failed = op.Reason
	}
	out := []Span{root}
	for i, stage := range stages {
		start, entered := op.Entered[stage.phase]
		if !entered {
			continue
		}
		out = append(out, Span{
			Trace: root.Trace, Parent: root.ID, ID: spanID(op.ID + "/" + stage.name), Name: stage.name,
			Start: start, End: next(op, i, start, end),
			Attributes: attributes("cadre.slot", op.Slot, "cadre.operation", op.ID),
		})
	}
	return out
}

// next returns when the Operation left the phase of stages[i], which it entered at start.
func next(op operation.Operation, i int, start, end time.Time) time.Time {
	for _, later := range stages[i+1:] {
		if at, entered := op.Entered[later.phase]; entered && !at.Before(start) {
			return at
		}
	}
	return end
}

func traceID(id string) [16]byte {
	sum := sha256.Sum256([]byte("cadre trace " + id))
	return [16]byte(sum[:16])
}

func spanID(id string) [8]byte {
	sum := sha256.Sum256([]byte("cadre span " + id))
	return [8]byte(sum[:8])
}

// attributes pairs keys and values and leaves out empty values.
func attributes(pairs ...string) []Attribute {
	var out []Attribute
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, Attribute{pairs[i], pairs[i+1]})
		}
	}
	return out
}
