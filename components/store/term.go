package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

const (
	// MaxTerm is the last Term: every reader of JSON keeps it exact. The Term never wraps around,
	// because a smaller Term would fence no earlier leader.
	MaxTerm = 1<<53 - 1
	// MaxRaised is the highest Term that an operator can set, so that Terms are left.
	MaxRaised = 1 << 52
)

// TermFacts is the input of NextTerm.
type TermFacts struct {
	// Stored is the Term record; nil: there is none.
	Stored *TermRecord
	// Witness is the key of a record that is only written under a Term; "": none was found. It is
	// used only when there is no Term record.
	Witness string
	// Raised is the Term in the operator's record; 0: there is no usable one. Unusable has the
	// reason for an unusable record.
	Raised   uint64
	Unusable error
	// Seen is the highest Term that this process has seen.
	Seen uint64
}

// NextTerm returns the Term of the next holder: above the stored Term and above the operator's
// raise. Without a raise it rejects a missing Term, and a Term below Seen (ErrTermRegression). It
// never passes MaxTerm (ErrTermExhausted).
func NextTerm(f TermFacts) (uint64, error) {
	base := f.Raised
	if f.Stored != nil {
		base = max(base, f.Stored.Term)
	}
	switch {
	case f.Stored == nil && f.Witness != "" && f.Raised == 0:
		return 0, fmt.Errorf("%w: %s is gone, but %s was written under a term; %s", ErrTermRegression, TermKey, f.Witness, f.wayOut())
	case base < f.Seen:
		return 0, fmt.Errorf("%w: %s is %d, but %d was seen: the store was restored or edited; %s", ErrTermRegression, TermKey, base, f.Seen, f.wayOut())
	case base >= MaxTerm:
		return 0, fmt.Errorf("%w: %s is %d, and the last one is %d: it was edited, and the values that agents have seen cannot be taken back", ErrTermExhausted, TermKey, base, uint64(MaxTerm))
	}
	return base + 1, nil
}

// wayOut describes the operator's remedy for a lost Term.
func (f TermFacts) wayOut() string {
	text := WayOut(max(f.Seen, 1), 0)
	if f.Unusable != nil {
		text += fmt.Sprintf(" (the present record has no effect: %v)", f.Unusable)
	}
	return text
}

// WayOut describes the operator's remedy for records that went back. Term and state must be at
// least these.
func WayOut(term, state uint64) string {
	return fmt.Sprintf(`find out which records are missing, then run cadre cluster accept-restore; it writes {"term":N,"state":M,"reason":"...","by":"..."} at %s, N at least %d and every term that agents and logs know, M at least %d`,
		RecoverKey(), term, state)
}

// underTerm reports whether a record is only written by a leader, or by a coordinator that checks
// the Term's index.
func underTerm(key string) bool {
	kind, err := KindOf(key)
	if err != nil {
		return false
	}
	return kind.Writer == Leader || kind.Writer == Admitter && !strings.HasPrefix(key, CollateralPrefix)
}

// ReadTermFacts reads the input of NextTerm except Seen, and the modify index of the Term record, 0
// when there is none.
func ReadTermFacts(ctx context.Context, s Store) (f TermFacts, index uint64, err error) {
	stored, index, err := Read[TermRecord](ctx, s, TermKey)
	switch {
	case err == nil:
		f.Stored = &stored
	case !errors.Is(err, ErrNotFound):
		return f, 0, err
	default:
		if index, err = f.readAll(ctx, s); err != nil {
			return f, 0, err
		}
	}
	f.Raised, f.Unusable, err = readRaised(ctx, s)
	return f, index, err
}

// readAll looks for the Witness in all records as they are at one moment, and returns the modify
// index of the Term record. If the list has a Term record, the Term was never lost: the first
// holder wrote it with its lock after the first read.
func (f *TermFacts) readAll(ctx context.Context, s Store) (index uint64, err error) {
	all, _, err := s.List(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, entry := range all {
		switch {
		case entry.Key == TermKey:
			stored, err := Decode[TermRecord](entry)
			if err != nil {
				return 0, err
			}
			f.Stored, index = &stored, entry.Index
		case f.Witness == "" && underTerm(entry.Key):
			f.Witness = entry.Key
		}
	}
	return index, nil
}

// readRaised reads the Term that an operator set. An unusable record raises nothing, and is an
// error only for a caller that needs the raise.
func readRaised(ctx context.Context, s Store) (term uint64, unusable, err error) {
	raised, unusable, err := readRecovery(ctx, s)
	return raised.Term, unusable, err
}

// readRecovery returns the zero value when there is no usable record.
func readRecovery(ctx context.Context, s Store) (raised Recovery, unusable, err error) {
	raised, _, err = Read[Recovery](ctx, s, RecoverKey())
	switch {
	case errors.Is(err, ErrNotFound):
		return Recovery{}, nil, nil
	case len(RecordErrors(err)) > 0:
		return Recovery{}, err, nil
	case err != nil:
		return Recovery{}, nil, err
	}
	if unusable := raised.Check(); unusable != nil {
		return Recovery{}, unusable, nil
	}
	return raised, nil, nil
}

// Check returns why the record raises nothing; nil: it is valid.
func (r Recovery) Check() error {
	switch {
	case r.Term < 1 || r.Term > MaxRaised:
		return fmt.Errorf("term: %d is not from 1 to %d", r.Term, uint64(MaxRaised))
	case r.State > MaxRaised:
		return fmt.Errorf("state: %d is above %d", r.State, uint64(MaxRaised))
	}
	return nil
}
