package store

import (
	"context"
	"fmt"
)

// StateFacts is the input of NextState.
type StateFacts struct {
	// Stored is the recorded state; 0: none.
	Stored uint64
	// Raised is the state in the operator's record; 0: there is no usable one.
	Raised uint64
	// Seen is the highest state that any trusted witness has seen.
	Seen uint64
	// Restored is the state at which work on restored records may continue; 0: they were never
	// restored from a backup.
	Restored uint64
	// Elapsed is StateRecord.Elapsed as recorded.
	Elapsed uint64
}

// At returns the state of the records, including an operator's raise.
func (f StateFacts) At() uint64 { return max(f.Stored, f.Raised) }

// Regressed returns ErrStateRegression when the records are older than the highest state seen; nil:
// work may continue on them.
func (f StateFacts) Regressed() error {
	if f.At() < f.Restored {
		return fmt.Errorf("%w: %s is %d in the restored backup, and work continues at %d; %s",
			ErrStateRegression, StateKey, f.At(), f.Restored, WayOut(1, max(f.Seen, f.Restored)))
	}
	if f.At() >= f.Seen {
		return nil
	}
	return fmt.Errorf("%w: %s is %d, but %d was seen: the store was restored from an older state or edited; %s",
		ErrStateRegression, StateKey, f.At(), f.Seen, WayOut(1, f.Seen))
}

// NextState returns the state after the next change. It rejects records that went back
// (ErrStateRegression), and never passes MaxTerm, the last number that every reader of JSON keeps
// exact (ErrTermExhausted).
func NextState(f StateFacts) (uint64, error) {
	if err := f.Regressed(); err != nil {
		return 0, err
	}
	if f.At() >= MaxTerm {
		return 0, fmt.Errorf("%w: %s is %d, and the last one is %d: it was edited", ErrTermExhausted, StateKey, f.At(), uint64(MaxTerm))
	}
	return f.At() + 1, nil
}

// ReadStateFacts reads the input of NextState except Seen, and the modify index of the state, 0
// when there is none.
func ReadStateFacts(ctx context.Context, s Store) (f StateFacts, index uint64, err error) {
	entries, err := s.Together(ctx, StateKey, RecoverKey(), RestoredKey)
	if err != nil {
		return f, 0, err
	}
	for _, entry := range entries {
		switch entry.Key {
		case StateKey:
			record, err := Decode[StateRecord](entry)
			if err != nil {
				return f, 0, err
			}
			f.Stored, f.Elapsed, index = record.State, record.Elapsed, entry.Index
		case RestoredKey:
			record, err := Decode[Restored](entry)
			if err != nil {
				return f, 0, err
			}
			f.Restored = record.State
		case RecoverKey():
			// An unusable record raises nothing, and is no error here.
			if raised, err := Decode[Recovery](entry); err == nil && raised.Check() == nil {
				f.Raised = raised.State
			}
		}
	}
	return f, index, nil
}
