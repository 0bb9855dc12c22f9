package store

import (
	"context"
	"fmt"
)

// StateFacts are what the next state follows from.
type StateFacts struct {
	// Stored is the state that is recorded; 0: none is.
	Stored uint64
	// Raised is what the operator's record asks for; 0: nothing that can be used.
	Raised uint64
	// Seen is the highest state that anybody who counts has seen.
	Seen uint64
	// Elapsed is StateRecord.Elapsed as recorded.
	Elapsed uint64
}

// At is the state that the records stand at, with what an operator raised it to.
func (f StateFacts) At() uint64 { return max(f.Stored, f.Raised) }

// Regressed is why the records may not be gone on from: they are older than what was seen
// of them (ErrStateRegression). nil: they may.
func (f StateFacts) Regressed() error {
	if f.At() >= f.Seen {
		return nil
	}
	return fmt.Errorf("%w: %s is %d, but %d was seen: the store was restored from an older state or edited; %s",
		ErrStateRegression, StateKey, f.At(), f.Seen, WayOut(1, f.Seen))
}

// NextState is the state after the next change. It refuses to go on from records that went
// back (ErrStateRegression), and to pass MaxTerm, the last number that every reader of JSON
// keeps exact (ErrTermExhausted).
func NextState(f StateFacts) (uint64, error) {
	if err := f.Regressed(); err != nil {
		return 0, err
	}
	if f.At() >= MaxTerm {
		return 0, fmt.Errorf("%w: %s is %d, and the last one is %d: somebody wrote it", ErrTermExhausted, StateKey, f.At(), uint64(MaxTerm))
	}
	return f.At() + 1, nil
}

// ReadStateFacts reads what NextState needs but Seen, and the modify index of the state,
// 0 when there is none.
func ReadStateFacts(ctx context.Context, s Store) (f StateFacts, index uint64, err error) {
	entries, err := s.Together(ctx, StateKey, RecoverKey())
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
		case RecoverKey():
			// One that cannot be used raises nothing, and stops nobody.
			if raised, err := Decode[Recovery](entry); err == nil && raised.Check() == nil {
				f.Raised = raised.State
			}
		}
	}
	return f, index, nil
}
