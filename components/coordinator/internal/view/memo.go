package view

import (
	"bytes"
	"reflect"

	"cadre.dev/store"
)

// memo remembers what records say from one read to the next: between two reads most
// do not change, and making sense of them all costs more than fetching them. A record
// is known by its whole text, so that a restored snapshot, whose indices begin anew,
// is not mistaken. nil remembers nothing. Not safe for concurrent use.
type memo struct {
	last map[memoKey]remembered
	next map[memoKey]remembered // nil: nothing is added
	// lastOf and nextOf are of the records in last and next.
	lastOf, nextOf whole
}

// memoKey is a record as one of the types that it is read as.
type memoKey struct {
	key string
	of  reflect.Type
}

type remembered struct {
	text  []byte
	value any
}

// whole is the type of the records at a key: each key has records of one type only, so that
// what was read as one need not be tried as another.
type whole map[string]reflect.Type

// turn begins a read: what the last one did not see is forgotten.
func (m *memo) turn() {
	if m != nil {
		m.last, m.next = m.next, make(map[memoKey]remembered, len(m.next))
		m.lastOf, m.nextOf = m.nextOf, make(whole, len(m.nextOf))
	}
}

// recall is what the record of e said as a T. The value is shared by all Views.
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

// remember keeps what the record of e says. Only what could be read is kept: what is
// wrong with a record is found out each time.
func remember[T any](m *memo, e store.Entry, value T) {
	if m != nil && m.next != nil {
		m.next[memoKey{e.Key, reflect.TypeFor[T]()}] = remembered{e.Value, value}
	}
}

// rememberRecord is remember for the whole of a record.
func rememberRecord[T any](m *memo, e store.Entry, value T) {
	remember(m, e, value)
	if m != nil && m.next != nil {
		m.nextOf[e.Key] = reflect.TypeFor[T]()
	}
}

// isOther reports that the records at key are known to be no T.
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

// said is what a read found, for reads beside it: nothing is added to it. What m finds from its
// next turn on is not in it, so that it may be used concurrently with m.
func (m *memo) said() *memo {
	if m == nil || m.next == nil {
		return nil
	}
	return &memo{last: m.next, lastOf: m.nextOf}
}
