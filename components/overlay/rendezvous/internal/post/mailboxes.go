package post

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/member"
)

var (
	// ErrUnknown reports a recipient without a mailbox.
	ErrUnknown = errors.New("no such mailbox")
	// ErrFull reports a mailbox, or a set of mailboxes, that is full.
	ErrFull = errors.New("mailbox is full")
)

// Limits bound an [Mailboxes].
type Limits struct {
	// Life is how long a message waits for its owner.
	Life time.Duration
	// Waiting is how many messages one box holds.
	Waiting int
	// Bytes is how many bytes of envelopes all boxes hold together.
	Bytes int
	// Boxes is how many there are; BoxesPerSlot of one Slot.
	Boxes, BoxesPerSlot int
	// Idle is how long a box stays after its owner was last seen.
	Idle time.Duration
	// Present is how long an owner that only polls counts as connected.
	Present time.Duration
	// Again is when an unacknowledged message is delivered again.
	Again time.Duration
}

// Message is one waiting message.
type Message struct {
	ID       uint64
	Envelope []byte
}

// Boot is a connected Boot with the chain it showed.
type Boot struct {
	Boot  string
	Chain [][]byte
}

// Counts has the sizes of all mailboxes.
type Counts struct {
	Boxes, Connected, Waiting, Bytes int
	// Delivered and Expired count messages that left, by how.
	Delivered, Expired uint64
}

// Mailboxes is the set of all mailboxes. Safe for concurrent use.
type Mailboxes struct {
	limits Limits

	mu        sync.Mutex
	boxes     map[member.Member]*box
	bySlot    map[identity.ID][]*box
	nextID    uint64
	bytes     int
	delivered uint64
	expired   uint64
}

type box struct {
	owner    member.Member
	chain    [][]byte
	messages []*message
	seen     time.Time
	attached *Box // the newest connection of the owner, nil when there is none
	waiters  int  // polls that wait right now
	wake     chan struct{}
}

type message struct {
	Message
	arrived time.Time
	shown   time.Time // zero: never
}

// New makes an empty set of mailboxes.
func New(l Limits) *Mailboxes {
	return &Mailboxes{limits: l, boxes: map[member.Member]*box{}, bySlot: map[identity.ID][]*box{}}
}

// Put leaves an envelope for the Boot to.
func (o *Mailboxes) Put(to member.Member, envelope []byte, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.boxes[to]
	if b == nil || o.idleLocked(b, now) {
		return ErrUnknown
	}
	o.expireLocked(b, now)
	if len(b.messages) >= o.limits.Waiting || o.bytes+len(envelope) > o.limits.Bytes {
		return ErrFull
	}
	o.nextID++
	b.messages = append(b.messages, &message{Message: Message{ID: o.nextID, Envelope: envelope}, arrived: now})
	o.bytes += len(envelope)
	close(b.wake)
	b.wake = make(chan struct{})
	return nil
}

// Find gives the Boots of a Slot that are connected now, newest first.
func (o *Mailboxes) Find(id identity.ID, most int, now time.Time) []Boot {
	o.mu.Lock()
	defer o.mu.Unlock()
	var there []*box
	for _, b := range o.bySlot[id] {
		if b.attached != nil || b.waiters > 0 || now.Sub(b.seen) < o.limits.Present {
			there = append(there, b)
		}
	}
	slices.SortFunc(there, func(x, y *box) int {
		return cmp.Or(-cmp.Compare(rank(x), rank(y)), y.seen.Compare(x.seen))
	})
	var boots []Boot
	for _, b := range there[:min(most, len(there))] {
		boots = append(boots, Boot{Boot: b.owner.Boot, Chain: b.chain})
	}
	return boots
}

func rank(b *box) int {
	if b.attached != nil {
		return 1
	}
	return 0
}

// Sweep drops expired boxes and messages.
func (o *Mailboxes) Sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.boxes {
		o.expireLocked(b, now)
		if o.idleLocked(b, now) {
			o.dropLocked(b)
		}
	}
}

// Close ends every box that gone says so of, with their connections.
func (o *Mailboxes) Close(gone func(member.Member) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for owner, b := range o.boxes {
		if gone(owner) {
			if b.attached != nil {
				b.attached.endLocked(EndRevoked)
			}
			o.dropLocked(b)
			n++
		}
	}
	return n
}

// Counts returns the sizes of all mailboxes.
func (o *Mailboxes) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := Counts{Boxes: len(o.boxes), Bytes: o.bytes, Delivered: o.delivered, Expired: o.expired}
	for _, b := range o.boxes {
		c.Waiting += len(b.messages)
		if b.attached != nil {
			c.Connected++
		}
	}
	return c
}

// openLocked gives the box of an owner, and makes one where there is none.
func (o *Mailboxes) openLocked(owner member.Member, chain [][]byte, now time.Time) (*box, error) {
	b := o.boxes[owner]
	if b == nil {
		if len(o.boxes) >= o.limits.Boxes {
			return nil, ErrFull
		}
		if of := o.bySlot[owner.ID]; len(of) >= o.limits.BoxesPerSlot {
			// A Slot with a machine that restarts again and again must not lock itself
			// out: the Boot with the longest silence goes.
			oldest := slices.MinFunc(of, func(x, y *box) int {
				return cmp.Or(cmp.Compare(rank(x), rank(y)), x.seen.Compare(y.seen))
			})
			if oldest.attached != nil {
				return nil, ErrFull
			}
			o.dropLocked(oldest)
		}
		b = &box{owner: owner, wake: make(chan struct{})}
		o.boxes[owner] = b
		o.bySlot[owner.ID] = append(o.bySlot[owner.ID], b)
	}
	b.chain, b.seen = chain, now
	return b, nil
}

func (o *Mailboxes) idleLocked(b *box, now time.Time) bool {
	return b.attached == nil && b.waiters == 0 && now.Sub(b.seen) > o.limits.Idle
}

func (o *Mailboxes) expireLocked(b *box, now time.Time) {
	b.messages = slices.DeleteFunc(b.messages, func(l *message) bool {
		if now.Sub(l.arrived) <= o.limits.Life {
			return false
		}
		o.bytes -= len(l.Envelope)
		o.expired++
		return true
	})
}

func (o *Mailboxes) ackLocked(b *box, ids []uint64) {
	b.messages = slices.DeleteFunc(b.messages, func(l *message) bool {
		if !slices.Contains(ids, l.ID) {
			return false
		}
		o.bytes -= len(l.Envelope)
		o.delivered++
		return true
	})
}

func (o *Mailboxes) dropLocked(b *box) {
	for _, l := range b.messages {
		o.bytes -= len(l.Envelope)
	}
	o.expired += uint64(len(b.messages))
	b.messages = nil
	delete(o.boxes, b.owner)
	of := slices.DeleteFunc(o.bySlot[b.owner.ID], func(x *box) bool { return x == b })
	if len(of) == 0 {
		delete(o.bySlot, b.owner.ID)
	} else {
		o.bySlot[b.owner.ID] = of
	}
	close(b.wake)
	b.wake = make(chan struct{})
}
