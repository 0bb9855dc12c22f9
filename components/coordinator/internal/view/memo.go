package view

import (
	"bytes"
	"reflect"

	"cadre.dev/store"
)

// memo caches decoded records from one read to the next. Most records do not change between two
// reads, and decoding all costs more than fetching them. A record is compared by its whole text,
// because a restored snapshot can reuse indices. A nil memo caches nothing. Not safe for concurrent
// use.
type memo struct {
	last map[memoKey]remembered
	next map[memoKey]remembered // nil: nothing is added
	// lastOf and nextOf have the types of the records in last and next.
	lastOf, nextOf whole
}

// memoKey is a record and the type that it is decoded as.
type memoKey struct {
	key string
	of  reflect.Type
}

type remembered struct {
	text  []byte
	value any
}

// whole maps a key to the type of its record. Each key has records of one type, so a record decoded
// as one type need not be tried as another.
type whole map[string]reflect.Type

// turn begins a read. Records that the previous read did not see are dropped.
func (m *memo) turn() {
	if m != nil {
		m.last, m.next = m.next, make(map[memoKey]remembered, len(m.next))
		m.lastOf, m.nextOf = m.nextOf, make(whole, len(m.nextOf))
	}
}

// recall returns the cached value of the record e as a T. All Views share the value.
func recall[T any](m *memo, e store.Entry) (value T, ok bool) {
	if m == nil {
		return value, false
	}
	key := memoKey{e.Key, reflect.TypeFor[T]()}
	old, ok := m.last[key]
	if !ok || !bytes.Equal(old.text, e.Value) {
		return value, false
	}
	if m.next != nil {
		m.next[key] = old
		if of, known := m.lastOf[e.Key]; known {
			m.nextOf[e.Key] = of
		}
	}
	return old.value.(T), true
}

// remember caches the value of the record e. Only readable records are cached: the fault of an
// unreadable one is found again at each read.
func remember[T any](m *memo, e store.Entry, value T) {
	if m != nil && m.next != nil {
		m.next[memoKey{e.Key, reflect.TypeFor[T]()}] = remembered{e.Value, value}
	}
}

// rememberRecord is remember for a record's main type.
func rememberRecord[T any](m *memo, e store.Entry, value T) {
	remember(m, e, value)
	if m != nil && m.next != nil {
		m.nextOf[e.Key] = reflect.TypeFor[T]()
	}
}

// isOther reports whether the record at key is known to be of another type than T.
func isOther[T any](m *memo, key string) bool {
	if m == nil {
		return false
	}
	of, known := m.lastOf[key]
	if !known {
		of, known = m.nextOf[key]
	}
	return known && of != reflect.TypeFor[T]()
}

// said returns a read-only memo of the current read, for concurrent reads. Later turns of m do not
// change it, so both can be used concurrently.
func (m *memo) said() *memo {
	if m == nil || m.next == nil {
		return nil
	}
	return &memo{last: m.next, lastOf: m.nextOf}
}
