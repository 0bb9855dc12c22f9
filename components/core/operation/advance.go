package operation

import (
	"reflect"
	"slices"
	"time"
)

// Advance moves op at most one Phase on, given f. Carry repeats Advance while the next Phase follows from known facts.
// Advance returns the record to write and the effects to perform. It is pure.
//
// The caller records the returned Operation, fenced, and only then performs the effects (R60). Acting is in the
// record, with the time and number of the call, before the call is made. If recording fails, the caller performs no
// effect and reads everything again. Advance keeps no other state: a successor that supplies the record and its own
// facts resumes where the last leader stopped (R70).
//
//	(begun)    agent must drain ─► DRAINING; nothing to drain ─► DRAINED
//	DRAINING   agent is done ─► DRAINED; abort or deadline ─► ABORTED, of half a step ─► DRAINED
//	DRAINED    still safe and wanted ─► ACTING + the call
//	ACTING     effect seen or accepted ─► BOOTING; refused ─► FAILED;
//	           read-back proves no effect ─► ACTING + the call again
//	BOOTING    a new Boot is admitted at To, or its service is restarted ─► JOINING;
//	           a deleted CVM is gone ─► DONE
//	JOINING    hooks done, available except for min_ready ─► SETTLING
//	SETTLING   available for min_ready ─► DONE; any setback ─► JOINING
//
// A Drain stays DRAINED until the drain is no longer wanted, and is DONE then.
func Advance(op Operation, f Facts, now time.Time) (Operation, []Effect) {
	if op.Phase.Ended() || f.Term < op.Term {
		return op, nil // ended, or called by a former leader (R61)
	}
	next, effects := op.advance(f, now)
	next.Failure.Arrived = next.Phase.Ended() && next.Phase != Done && next.newBoot(f)
	return next, effects
}

// Carry advances op while known facts lead from one Phase to the next. It ends at a platform call, at the end of op,
// and where op waits. way holds the intermediate records and the last record. Only the last record is written, since
// the intermediate records have no effect except a wake-up. look returns the Facts for each record. Carry reads clock
// after look, because look takes time. An error of look ends Carry.
func Carry(op Operation, clock func() time.Time, look func(Operation) (Facts, error)) (way []Operation, effects []Effect, err error) {
	for {
		f, err := look(op)
		if err != nil {
			return nil, nil, err
		}
		next, more := Advance(op, f, clock())
		way, effects = append(way, next), append(effects, more...)
		// The policy for the next call takes time to write. The drain is therefore recorded first.
		allows := next.Phase == Drained && next.Kind != Restart && next.Kind != Delete
		waits := next.Phase == op.Phase || next.Phase.Ended() || allows
		if waits || len(way) == maxWay || slices.ContainsFunc(more, func(e Effect) bool { return e.Kind == CallPlatform }) {
			return way, effects, nil
		}
		op = next
	}
}

// maxWay bounds the Phases of one Carry: an Operation in a cycle would never be recorded.
const maxWay = 8

func (op Operation) advance(f Facts, now time.Time) (Operation, []Effect) {
	if f.Term > op.Term {
		op.setBack(now)
	}
	op.Term = f.Term
	if next, effects, resolved := op.resolve(f, now); resolved {
		return next, effects
	}
	if op.Kind == Drain && !op.Entered[Drained].IsZero() {
		return op.stayDrained(f, now)
	}
	switch op.Phase {
	case Draining:
		return op.fromDraining(f, now)
	case Drained:
		return op.fromDrained(f, now)
	case Acting:
		return op.fromActing(f, now)
	case Booting:
		return op.fromBooting(f, now)
	case Joining:
		return op.fromJoining(f, now)
	case Settling:
		return op.fromSettling(f, now)
	case Done, Aborted, Failed, "":
	}
	return op, nil
}

// Same reports that a and b are the same record, so no write is needed.
func Same(a, b Operation) bool { return reflect.DeepEqual(a, b) }

// Begun returns op as its first record: its agent drains, or has nothing to drain. The order to the agent follows from
// the record, so no later write is needed. The drain must end within the given time.
func (op Operation) Begun(within time.Duration, now time.Time) Operation {
	op.Times.Created, op.Times.DrainBy = now, now.Add(within)
	if op.Kind != Create && op.Way.drains() {
		return op.enter(Draining, now).because("waits for the agent to drain")
	}
	return op.enter(Drained, now).because("begins without a drain")
}
