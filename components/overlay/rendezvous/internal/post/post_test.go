package post

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/member"
)

var start = time.Unix(1_700_000_000, 0)

func limits() Limits {
	return Limits{
		Life: 30 * time.Second, Waiting: 4, Bytes: 100, Boxes: 5, BoxesPerSlot: 2,
		Idle: 2 * time.Minute, Present: 30 * time.Second, Again: 3 * time.Second,
	}
}

func who(slot, boot string) member.Member {
	return member.Member{ID: identity.ID{Cluster: "c", Group: "db", Slot: slot}, Boot: strings.Repeat(boot, 64)}
}

func attach(t *testing.T, o *Mailboxes, m member.Member, now time.Time) *Box {
	t.Helper()
	b, err := o.Attach(m, [][]byte{[]byte(m.Boot)}, now)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ids(messages []Message) []uint64 {
	var all []uint64
	for _, l := range messages {
		all = append(all, l.ID)
	}
	return all
}

func TestDeliveredUntilAcknowledged(t *testing.T) {
	o := New(limits())
	a := who("db-0", "a")
	b := attach(t, o, a, start)
	_, wake := b.Due(start)
	if err := o.Put(a, []byte("one"), start); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	default:
		t.Error("the owner was not woken")
	}
	due := func(after time.Duration) []uint64 { l, _ := b.Due(start.Add(after)); return ids(l) }
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Second, 0}, {3 * time.Second, 1}, {4 * time.Second, 0}, {6 * time.Second, 1}} {
		if got := due(step.after); len(got) != step.want {
			t.Errorf("after %v: %v, want %d", step.after, got, step.want)
		}
	}
	b.Ack([]uint64{1})
	if got := due(10 * time.Second); got != nil {
		t.Errorf("after the acknowledgement: %v", got)
	}
	if c := o.Counts(); c.Waiting != 0 || c.Bytes != 0 || c.Delivered != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestMessagesExpire(t *testing.T) {
	o := New(limits())
	a := who("db-0", "a")
	b := attach(t, o, a, start)
	_ = o.Put(a, []byte("one"), start)
	if due, _ := b.Due(start.Add(31 * time.Second)); due != nil {
		t.Errorf("a message of half a minute ago: %v", due)
	}
	if c := o.Counts(); c.Bytes != 0 || c.Expired != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestBounds(t *testing.T) {
	o := New(limits())
	a, b := who("db-0", "a"), who("db-1", "b")
	attach(t, o, a, start)
	attach(t, o, b, start)
	for i := range 4 {
		if err := o.Put(a, []byte("x"), start); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := o.Put(a, []byte("x"), start); !errors.Is(err, ErrFull) {
		t.Errorf("full mailbox: error %v, want %v", err, ErrFull)
	}
	if err := o.Put(b, make([]byte, 97), start); !errors.Is(err, ErrFull) {
		t.Errorf("full memory: error %v, want %v", err, ErrFull)
	}
	if err := o.Put(b, make([]byte, 96), start); err != nil {
		t.Errorf("a message of the greatest size: %v", err)
	}
	if err := o.Put(who("db-2", "a"), nil, start); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown mailbox: error %v, want %v", err, ErrUnknown)
	}
	if err := o.Put(a, []byte("x"), start.Add(31*time.Second)); err != nil {
		t.Errorf("after the messages expired: %v", err)
	}
	for _, boot := range []string{"1", "2", "3"} {
		attach(t, o, who("db-"+boot, boot), start)
	}
	if _, err := o.Attach(who("db-9", "9"), nil, start); !errors.Is(err, ErrFull) {
		t.Errorf("one mailbox more: error %v, want %v", err, ErrFull)
	}
}

func TestRestartingSlotKeepsItsPlace(t *testing.T) {
	o := New(limits())
	for i, boot := range []string{"a", "b", "c", "d"} {
		at := start.Add(time.Duration(i) * time.Second)
		attach(t, o, who("db-0", boot), at).Detach(at)
	}
	if got := o.Find(who("db-0", "a").ID, 9, start.Add(4*time.Second)); len(got) != 2 || got[0].Boot != strings.Repeat("d", 64) {
		t.Errorf("found %d boots, want the newest two", len(got))
	}
	x, y := attach(t, o, who("db-0", "e"), start), attach(t, o, who("db-0", "f"), start)
	if _, err := o.Attach(who("db-0", "g"), nil, start); !errors.Is(err, ErrFull) {
		t.Errorf("three connected boots of a slot: error %v, want %v", err, ErrFull)
	}
	x.Detach(start)
	y.Detach(start)
}

func TestNewestConnectionWins(t *testing.T) {
	o := New(limits())
	a := who("db-0", "a")
	first := attach(t, o, a, start)
	_ = o.Put(a, []byte("one"), start)
	first.Due(start)
	second := attach(t, o, a, start)
	select {
	case <-first.Ended():
		if first.Why() != EndReplaced {
			t.Errorf("ended because %s", first.Why())
		}
	default:
		t.Error("the first connection goes on")
	}
	if due, _ := first.Due(start); due != nil {
		t.Error("the first connection still gets messages")
	}
	if due, _ := second.Due(start); len(due) != 1 {
		t.Error("the first connection's messages are lost")
	}
	first.Detach(start)
	if err := o.Put(a, []byte("two"), start); err != nil {
		t.Errorf("the end of the first took the second's mailbox: %v", err)
	}
}

func TestIdleMailboxesGo(t *testing.T) {
	o := New(limits())
	a := who("db-0", "a")
	b := attach(t, o, a, start)
	o.Sweep(start.Add(time.Hour))
	if o.Counts().Boxes != 1 {
		t.Fatal("a connected member lost its mailbox")
	}
	b.Detach(start)
	if got := o.Find(a.ID, 1, start.Add(29*time.Second)); len(got) != 1 {
		t.Error("a member that reconnects is not found")
	}
	if got := o.Find(a.ID, 1, start.Add(31*time.Second)); len(got) != 0 {
		t.Error("a member that is gone is found")
	}
	if err := o.Put(a, []byte("x"), start.Add(time.Minute)); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	o.Sweep(start.Add(3 * time.Minute))
	if c := o.Counts(); c.Boxes != 0 || c.Bytes != 0 {
		t.Errorf("after three minutes: %+v", c)
	}
}

func TestClose(t *testing.T) {
	o := New(limits())
	a, b := who("db-0", "a"), who("db-0", "b")
	x, y := attach(t, o, a, start), attach(t, o, b, start)
	_ = o.Put(a, []byte("x"), start)
	if n := o.Close(func(m member.Member) bool { return m == a }); n != 1 {
		t.Errorf("%d closed, want 1", n)
	}
	select {
	case <-x.Ended():
	default:
		t.Error("the connection goes on")
	}
	select {
	case <-y.Ended():
		t.Error("another's connection ended")
	default:
	}
	if c := o.Counts(); c.Bytes != 0 || c.Boxes != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestPoll(t *testing.T) {
	o := New(limits())
	a := who("db-0", "a")
	now := func() time.Time { return start }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := o.Poll(ended, a, nil, nil, now); err != nil || len(got) != 0 {
		t.Fatalf("an empty mailbox: %v, error %v", got, err)
	}
	_ = o.Put(a, []byte("one"), start)
	for range 2 {
		if got, err := o.Poll(t.Context(), a, nil, nil, now); err != nil || !slices.Equal(ids(got), []uint64{1}) {
			t.Fatalf("got %v, error %v, want message 1", got, err)
		}
	}
	got := make(chan []Message, 1)
	go func() {
		l, _ := o.Poll(t.Context(), a, nil, []uint64{1}, now)
		got <- l
	}()
	if err := o.Put(a, []byte("two"), start); err != nil {
		t.Fatal(err)
	}
	if l := <-got; !slices.Equal(ids(l), []uint64{2}) {
		t.Errorf("got %v, want message 2", ids(l))
	}
}
