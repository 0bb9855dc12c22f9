package backlog

import (
	"bytes"
	"testing"

	"cadre.dev/overlay/internal/frame"
)

func TestQueueDropsTheOldest(t *testing.T) {
	q := New()
	const size, extra = 1000, 50
	fits := Limit / frame.PrefixedSize(size)
	for i := range fits + extra {
		b := make([]byte, size)
		b[0], b[1] = byte(i), byte(i>>8)
		q.Push(b)
	}
	if got := q.Dropped(); got != extra {
		t.Errorf("dropped %d, want %d", got, extra)
	}
	r := bytes.NewReader(q.Take(nil))
	buf := make([]byte, frame.MaxDatagram)
	for i := extra; i < fits+extra; i++ {
		b, err := frame.ReadPrefixed(r, buf)
		if err != nil || int(b[0])|int(b[1])<<8 != i {
			t.Fatalf("datagram %d: got %v, error %v", i, b[:2], err)
		}
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes left", r.Len())
	}
}

// The queue stays within its bounds however long it runs.
func TestQueueMemory(t *testing.T) {
	q := New()
	b := make([]byte, 1400)
	for range 10_000 {
		q.Push(b)
	}
	if c := cap(q.buf); c > 4*Limit {
		t.Errorf("queue of %d bytes holds %d", Limit, c)
	}
}

// An empty queue has no reader; the first Push must ask for one.
func TestQueueAsksForAReaderOnce(t *testing.T) {
	for name, next := range map[string]func(*Queue) bool{
		"take": func(q *Queue) bool { return q.Take(nil) != nil },
		"pop":  func(q *Queue) bool { _, more := q.Pop(nil); return more },
	} {
		q := New()
		b := make([]byte, frame.MinDatagram)
		for range 2 {
			if !q.Push(b) {
				t.Errorf("%s: no reader was asked for", name)
			}
			if q.Push(b) {
				t.Errorf("%s: a reader was asked for twice", name)
			}
			for next(q) {
				if q.Push(make([]byte, 1)) {
					t.Errorf("%s: an invalid datagram asked for a reader", name)
				}
			}
		}
	}
}
