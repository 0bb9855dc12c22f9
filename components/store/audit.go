package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/audit"
)

// auditAttempts bounds the attempts of a transaction whose entry lost the race for the end of the
// chain. In each round of a race one transaction is committed.
const auditAttempts = 24

// Noted returns op with a note: the transaction of op enters the act in the audit chain, and the
// entry exists if and only if the act does. note has At, Who, By, Request, Verb and Reason; the
// object is the key of op, and the digests are those of its value. The note of a check reports a
// change that was found: Before is taken from note.
func Noted(op Op, note audit.Entry) Op {
	op.Note = &note
	return op
}

// NoteAll is Noted for every Op without a note that changes a spec or a record below control/. The
// other Ops of such an act follow from it.
func NoteAll(note audit.Entry, ops ...Op) []Op {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Note == nil && op.noted() {
			ops[i] = Noted(op, note)
		}
	}
	return ops
}

// Audited reports whether each change of the key has an entry: the specs of groups, and all records
// below control/.
func Audited(key string) bool {
	return strings.HasPrefix(key, ControlPrefix) || strings.HasPrefix(key, GroupsPrefix) && strings.HasSuffix(key, "/spec")
}

// NoteFenced is NoteAll for the transactions of the leader by. A transaction without the fence of a
// Lease is returned unchanged.
func NoteFenced(by string, at time.Time, ops []Op) []Op {
	if !slices.ContainsFunc(ops, Op.isFence) {
		return ops
	}
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Note != nil || !op.noted() {
			continue
		}
		verb := "update"
		if op.Kind == OpDelete || op.Kind == OpDeleteCAS {
			verb = "remove"
		}
		ops[i] = Noted(op, audit.Entry{At: at, Who: audit.Leader, By: by, Verb: verb})
	}
	return ops
}

// noted reports whether o has a note or needs one.
func (o Op) noted() bool { return o.Note != nil || o.writes() && Audited(o.Key) }

func (o Op) writes() bool {
	switch o.Kind {
	case OpPut, OpPutCAS, OpLock, OpUnlock, OpDelete, OpDeleteCAS:
		return true
	case OpCheckIndex, OpCheckAbsent, OpCheckSession:
	}
	return false
}

// Reader is the part of a Store that CommitNoted reads with.
type Reader interface {
	List(ctx context.Context, prefix string) ([]Entry, uint64, error)
	Together(ctx context.Context, what ...string) ([]Entry, error)
}

// CommitNoted is the Commit of a Store whose commit function knows no notes. It commits the entries
// of noted Ops together with the Ops, and retries while only the end of the chain moved: a
// transaction that failed had no effect. The errors and their indexes are those of ops;
// ErrUnavailable when the end moved at each attempt.
func CommitNoted(ctx context.Context, r Reader, ops []Op, commit func(context.Context, []Op) error) error {
	if !slices.ContainsFunc(ops, func(o Op) bool { return o.Note != nil }) {
		return commit(ctx, ops)
	}
	for attempt := range auditAttempts {
		if attempt > 0 {
			if err := pause(ctx, time.Duration(attempt)*time.Millisecond); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
		}
		all, err := EnterNotes(ctx, r, ops)
		if err != nil {
			return fmt.Errorf("commit: enter the act in the audit chain: %w", err)
		}
		err = commit(ctx, all)
		conflict, is := errors.AsType[*ConflictError](err)
		if !is {
			return err
		}
		own := &ConflictError{}
		for _, f := range conflict.Failed {
			// A noted write without a check got one here.
			if i := f.Index; i < len(ops) && all[i].Kind == ops[i].Kind {
				own.Failed = append(own.Failed, FailedOp{Index: i, Op: ops[i], What: f.What})
			}
		}
		if len(own.Failed) > 0 {
			return own
		}
	}
	return fmt.Errorf("commit: %w: other acts were entered in the audit chain first, %d times: try again", ErrUnavailable, auditAttempts)
}

// EnterNotes returns ops with the writes of their entries behind them: one for each entry, and one
// for the end of the chain, all with check-and-set. A noted write without a check gets one, because
// its entry has the digest of the value before.
func EnterNotes(ctx context.Context, r Reader, ops []Op) ([]Op, error) {
	what := []string{AuditHeadKey}
	for _, op := range ops {
		if op.Note != nil && !slices.Contains(what, op.Key) {
			what = append(what, op.Key)
		}
	}
	read, err := r.Together(ctx, what...)
	if err != nil {
		return nil, err
	}
	values := make(map[string]Entry, len(read))
	for _, entry := range read {
		values[entry.Key] = entry
	}
	head, index, err := auditHead(ctx, r, values[AuditHeadKey])
	if err != nil {
		return nil, err
	}
	out := slices.Clone(ops)
	for i, op := range ops {
		if op.Note == nil {
			continue
		}
		was, exists := values[op.Key]
		out[i].Note = nil
		if op.Kind == OpDelete && !exists {
			out[i].Kind = OpCheckAbsent // it changes nothing, and has no entry
			continue
		}
		out[i].Kind, out[i].Index = checked(op, was)
		var e audit.Entry
		head, e = head.Append(noteOf(op, was, exists))
		put, err := Put(AuditKey(e.Number), e, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, put)
	}
	if len(out) == len(ops) {
		return out, nil
	}
	put, err := Put(AuditHeadKey, head, index)
	return append(out, put), err
}

// checked is the kind and index of a noted Op with check-and-set.
func checked(op Op, was Entry) (OpKind, uint64) {
	switch op.Kind {
	case OpPut:
		return OpPutCAS, was.Index
	case OpDelete:
		return OpDeleteCAS, was.Index
	case OpPutCAS, OpDeleteCAS, OpCheckIndex, OpCheckAbsent, OpCheckSession, OpLock, OpUnlock:
	}
	return op.Kind, op.Index
}

// noteOf completes the note of an Op whose key had the value was.
func noteOf(op Op, was Entry, exists bool) audit.Entry {
	e := *op.Note
	e.Object = op.Key
	now := audit.ValueDigest(was.Value, exists)
	switch op.Kind {
	case OpPut, OpPutCAS, OpLock, OpUnlock:
		e.Before, e.After = now, audit.ValueDigest(op.Value, true)
	case OpDelete, OpDeleteCAS:
		e.Before, e.After = now, ""
	case OpCheckIndex, OpCheckAbsent, OpCheckSession:
		e.After = now
	}
	return e
}

// auditHead decodes the record of the chain's end. Without a usable record the chain continues after
// its last entry: a damaged record must not stop a cluster, and a verification of the chain finds
// the missing entries. index is that of the record, 0 when it is absent.
func auditHead(ctx context.Context, r Reader, record Entry) (head audit.Head, index uint64, err error) {
	if record.Index != 0 {
		if head, err = Decode[audit.Head](record); err == nil {
			return head, record.Index, nil
		}
	}
	entries, _, err := r.List(ctx, AuditPrefix)
	if err != nil {
		return head, 0, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Key == AuditHeadKey })
	if len(entries) == 0 {
		return audit.Head{}, record.Index, nil
	}
	first, last := entries[0], entries[len(entries)-1]
	head.Last = AuditPoint(last)
	if e, err := Decode[audit.Entry](last); err == nil {
		head.At = e.At
	}
	if e, err := Decode[audit.Entry](first); err == nil && e.Number > 1 {
		head.Checkpoint = audit.Point{Number: e.Number - 1, Digest: e.Previous}
	}
	return head, record.Index, nil
}

// AuditPoint is the point of the chain at a stored entry, readable or not.
func AuditPoint(entry Entry) audit.Point {
	if e, err := Decode[audit.Entry](entry); err == nil {
		return audit.Point{Number: e.Number, Digest: e.Digest()}
	}
	var number uint64
	_, _ = fmt.Sscanf(strings.TrimPrefix(entry.Key, AuditPrefix), "%d", &number) // the key has the grammar of a number
	return audit.Point{Number: number, Digest: audit.ValueDigest(entry.Value, true)}
}

// ReadAuditHead returns the end of the audit chain; the zero Head before the first entry.
func ReadAuditHead(ctx context.Context, s Store) (audit.Head, error) {
	record, err := s.Get(ctx, AuditHeadKey)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return audit.Head{}, err
	}
	head, _, err := auditHead(ctx, s, record)
	return head, err
}

// ReadAudit returns the entries with the numbers from to to, which are at most MaxTogether; absent
// entries are left out. An unreadable entry is an error (*RecordError).
func ReadAudit(ctx context.Context, s Reader, from, to uint64) ([]audit.Entry, error) {
	var keys []string
	for n := from; n <= to && len(keys) < MaxTogether; n++ {
		keys = append(keys, AuditKey(n))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	entries, err := s.Together(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]audit.Entry, 0, len(entries))
	for _, entry := range entries {
		e, err := Decode[audit.Entry](entry)
		if err != nil {
			return nil, err
		}
		if AuditKey(e.Number) != entry.Key {
			return nil, &RecordError{Key: entry.Key, Index: entry.Index, Err: fmt.Errorf("number: it is %d", e.Number)}
		}
		out = append(out, e)
	}
	return out, nil
}

// noteLeads is the entry of a coordinator that takes the Lease.
func noteLeads(holder string, term uint64, at time.Time) audit.Entry {
	return audit.Entry{At: at, Who: audit.Leader, By: holder, Verb: "lead", Reason: fmt.Sprintf("term %d", term)}
}

// LeaseOps are the writes of a holder that takes the Lease of a Term whose record has the index
// termIndex: the record of the Term, and the entry. The session's lock is not among them.
func LeaseOps(ctx context.Context, r Reader, holder string, term, termIndex uint64, at time.Time) ([]Op, error) {
	value, err := json.Marshal(TermRecord{Term: term})
	if err != nil {
		return nil, err
	}
	return EnterNotes(ctx, r, []Op{Noted(Op{Kind: OpPutCAS, Key: TermKey, Value: value, Index: termIndex}, noteLeads(holder, term, at))})
}
