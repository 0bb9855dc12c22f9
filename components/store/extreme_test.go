package store_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson/strictjsontest"
	"cadre.dev/store"
)

// keyFor returns a key of a kind of records.
func keyFor(t testing.TB, kind store.Kind) string {
	t.Helper()
	parts := strings.Split(kind.Pattern, "/")
	for i, part := range parts {
		switch part {
		case "<gate>", "<group>", "<route>", "<secret>", "<slot>":
			parts[i] = "pg"
		case "<hold>":
			parts[i] = "step_delay"
		case "<digest>", "<id>", "<revision>":
			parts[i] = strings.Repeat("a", 32)
		case "<nonce>":
			parts[i] = strings.Repeat("a", 64)
		case "<revocation>":
			parts[i] = "instance-a"
		case "<scope>":
			parts[i] = "_all"
		case "<fmspc>":
			parts[i] = "00906ed50000"
		case "<hash>", "<sha256>":
			parts[i] = strings.Repeat("a", 64)
		}
	}
	key := strings.Join(parts, "/")
	if got, err := store.KindOf(key); err != nil || got.Pattern != kind.Pattern {
		t.Fatalf("%s is no key of %s: %v", key, kind.Pattern, err)
	}
	return key
}

// decoders decode a record of each type of the table, and call all its computed values.
var decoders = map[reflect.Type]func(store.Entry) (any, error){
	reflect.TypeFor[store.QueueRequest](): use(func(q store.QueueRequest) { _ = q.Check() }),
	reflect.TypeFor[store.Recovery]():     use(func(r store.Recovery) { _ = r.Check() }),
	reflect.TypeFor[store.Override]():     use(func(m store.Override) { _, _ = m.Length(time.Now()), group.ExclusionOf(m.From) }),
	reflect.TypeFor[operation.Operation](): use(func(op operation.Operation) {
		_, _ = operation.Advance(op, operation.Facts{}, time.Now())
		_ = op.Clocks()
	}),
	reflect.TypeFor[policy.GroupPolicy](): use(func(gp policy.GroupPolicy) {
		for revision := range gp.Revisions {
			_ = gp.Judge(revision, "", "")
		}
	}),
}

func use[T any](ask func(T)) func(store.Entry) (any, error) {
	return func(e store.Entry) (any, error) {
		value, err := store.Decode[T](e)
		if err == nil {
			ask(value)
		}
		return value, err
	}
}

// FuzzINP03_Record: a record of any kind with any content is rejected or can be written again.
func FuzzINP03_Record(f *testing.F) {
	kinds := map[int]store.Kind{}
	for n, kind := range store.Records {
		kinds[n] = kind
		if decoders[kind.Type] == nil {
			continue // another kind has the same decoder, and no value is computed from it alone
		}
		text, err := json.Marshal(strictjsontest.FilledOf(kind.Type).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, text)
		for c := range strictjsontest.Extreme(f, text) {
			f.Add(n, c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, n int, text []byte) {
		kind, known := kinds[n]
		read := decoders[kind.Type]
		if !known || read == nil {
			return
		}
		key := keyFor(t, kind)
		value, err := read(store.Entry{Key: key, Value: text, Index: 1})
		if err != nil {
			return
		}
		again, err := json.Marshal(value)
		if err != nil {
			if strings.Contains(err.Error(), "year outside of range") {
				return // no component writes such a time
			}
			t.Fatalf("%s: the read value cannot be written: %v", key, err)
		}
		if _, err := read(store.Entry{Key: key, Value: again, Index: 1}); err != nil && len(again) <= kind.MaxBytes {
			t.Fatalf("%s: the written value cannot be read: %v", key, err)
		}
	})
}
