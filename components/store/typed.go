package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Record is one typed record as read.
type Record[T any] struct {
	Key   string
	Index uint64
	Value T
}

// RecordError is the error of one unusable record; the other records are usable.
type RecordError struct {
	Key   string
	Index uint64
	Err   error
}

// Error names the key.
func (e *RecordError) Error() string { return fmt.Sprintf("record %s: %v", e.Key, e.Err) }

// Unwrap gives the reason.
func (e *RecordError) Unwrap() error { return e.Err }

// RecordErrors lists the unusable records in an error of ReadAll; empty when the read itself
// failed.
func RecordErrors(err error) []*RecordError {
	switch e := err.(type) { //nolint:errorlint // it walks the whole tree itself
	case nil:
		return nil
	case *RecordError:
		return []*RecordError{e}
	case interface{ Unwrap() []error }:
		var all []*RecordError
		for _, one := range e.Unwrap() {
			all = append(all, RecordErrors(one)...)
		}
		return all
	default:
		return RecordErrors(errors.Unwrap(err))
	}
}

// Read returns the record at key and its modify index for a check-and-set. It returns ErrNotFound
// when the record is absent, and *RecordError when its value is not a T.
func Read[T any](ctx context.Context, s Store, key string) (T, uint64, error) {
	var none T
	kind, err := kindFor[T](key)
	if err != nil {
		return none, 0, err
	}
	entry, err := s.Get(ctx, key)
	if err != nil {
		return none, 0, err
	}
	value, err := decode[T](kind, entry)
	if err != nil {
		return none, entry.Index, err
	}
	return value, entry.Index, nil
}

// ReadAll reads all records of type T below prefix, sorted by key, and the index that Watch
// continues from. Records of other types below the same prefix are left out (groups/ holds specs
// and statuses). An unusable record, or a key that is in no table, does not hide the others:
// ReadAll returns the good records, and the error has one *RecordError for each bad one (see
// RecordErrors). Any other error means that nothing was read.
func ReadAll[T any](ctx context.Context, s Store, prefix string) ([]Record[T], uint64, error) {
	entries, index, err := s.List(ctx, prefix)
	if err != nil {
		return nil, 0, err
	}
	want := typeOf[T]()
	var bad []error
	records := make([]Record[T], 0, len(entries))
	for _, entry := range entries {
		kind, err := KindOf(entry.Key)
		if err != nil {
			bad = append(bad, &RecordError{Key: entry.Key, Index: entry.Index, Err: err})
			continue
		}
		if kind.Type != want {
			continue
		}
		value, err := decode[T](kind, entry)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		records = append(records, Record[T]{Key: entry.Key, Index: entry.Index, Value: value})
	}
	return records, index, errors.Join(bad...)
}

// ReadRaw returns the bytes at key, for values whose decoder is elsewhere (a group's spec). The
// size bound of the record applies: ErrTooLarge.
func ReadRaw(ctx context.Context, s Store, key string) ([]byte, uint64, error) {
	kind, err := KindOf(key)
	if err != nil {
		return nil, 0, err
	}
	entry, err := s.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if err := kind.bound(entry); err != nil {
		return nil, entry.Index, err
	}
	return entry.Value, entry.Index, nil
}

// Put returns the Op that writes value at key if the key's modify index is still casIndex; 0: if
// the key is absent. It returns ErrTooLarge beyond the record's bound.
func Put[T any](key string, value T, casIndex uint64) (Op, error) {
	kind, err := kindFor[T](key)
	if err != nil {
		return Op{}, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return Op{}, fmt.Errorf("encode record %s: %w", key, err)
	}
	return kind.put(key, text, casIndex)
}

// PutRaw is Put for a value that is already encoded.
func PutRaw(key string, value []byte, casIndex uint64) (Op, error) {
	kind, err := KindOf(key)
	if err != nil {
		return Op{}, err
	}
	return kind.put(key, bytes.Clone(value), casIndex)
}

func (k Kind) put(key string, text []byte, casIndex uint64) (Op, error) {
	op := Op{Kind: OpPutCAS, Key: key, Value: text, Index: casIndex}
	if err := k.bound(Entry{Key: key, Value: text}); err != nil {
		return Op{}, err
	}
	return op, nil
}

func (k Kind) bound(entry Entry) error {
	if size := len(entry.Value); size > k.MaxBytes {
		return &RecordError{Key: entry.Key, Index: entry.Index,
			Err: fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, k.MaxBytes)}
	}
	return nil
}

// kindFor finds the row of key and checks that it holds a T: a wrong pair of key and type is a
// defect of the caller and must not reach the store.
func kindFor[T any](key string) (Kind, error) {
	kind, err := KindOf(key)
	if err != nil {
		return Kind{}, err
	}
	if want := typeOf[T](); kind.Type != want {
		return Kind{}, fmt.Errorf("%w: %s holds %s, not %s", ErrBadKey, key, kind.Type, want)
	}
	return kind, nil
}

// Decode decodes an entry. It returns *RecordError when the value is not a T.
func Decode[T any](entry Entry) (T, error) {
	kind, err := kindFor[T](entry.Key)
	if err != nil {
		var none T
		return none, err
	}
	return decode[T](kind, entry)
}

func decode[T any](kind Kind, entry Entry) (T, error) {
	var value T
	if err := kind.bound(entry); err != nil {
		return value, err
	}
	if err := decodeStrict(entry.Value, &value); err != nil {
		var none T
		return none, &RecordError{Key: entry.Key, Index: entry.Index, Err: err}
	}
	return value, nil
}

// decodeStrict rejects unknown fields, trailing data and a bare null.
func decodeStrict(text []byte, value any) error {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		if field, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("field %q: JSON %s does not fit %s", field.Field, field.Value, field.Type)
		}
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON object")
	}
	return nil
}
