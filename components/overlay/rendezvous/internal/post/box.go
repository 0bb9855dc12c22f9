package post

import (
	"context"
	"time"

	"cadre.dev/overlay/rendezvous/internal/member"
)

// End is why a [Box] was taken from its connection.
type End string

const (
	// EndReplaced: the owner has connected again.
	EndReplaced End = "replaced"
	// EndRevoked: the owner may not connect any more.
	EndRevoked End = "revoked"
)

// Box is a mailbox as the owner's connection sees it. A Boot has one connection:
// the newest.
type Box struct {
	mailboxes *Mailboxes
	box       *box
	ended     chan struct{}
	why       End
}

// Attach opens the owner's mailbox for a connection that lasts. An earlier one
// of the same Boot ends.
func (o *Mailboxes) Attach(owner member.Member, chain [][]byte, now time.Time) (*Box, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, err := o.openLocked(owner, chain, now)
	if err != nil {
		return nil, err
	}
	if b.attached != nil {
		b.attached.endLocked(EndReplaced)
	}
	// Messages of the earlier connection may never have arrived.
	for _, l := range b.messages {
		l.shown = time.Time{}
	}
	at := &Box{mailboxes: o, box: b, ended: make(chan struct{})}
	b.attached = at
	return at, nil
}

// Detach ends the use of the box; it stays for a while.
func (b *Box) Detach(now time.Time) {
	b.mailboxes.mu.Lock()
	defer b.mailboxes.mu.Unlock()
	if b.box.attached == b {
		b.box.attached = nil
		b.box.seen = now
	}
}

// Ended is closed when the box was taken from this connection; Why says why.
func (b *Box) Ended() <-chan struct{} { return b.ended }

// Why is valid once Ended is closed.
func (b *Box) Why() End { return b.why }

func (b *Box) endLocked(why End) {
	select {
	case <-b.ended:
	default:
		b.why = why
		close(b.ended)
	}
}

// Due returns the messages to send now: new messages, and sent messages without an
// acknowledgement for a while. wake is closed when another arrives.
func (b *Box) Due(now time.Time) (due []Message, wake <-chan struct{}) {
	b.mailboxes.mu.Lock()
	defer b.mailboxes.mu.Unlock()
	b.mailboxes.expireLocked(b.box, now)
	if b.box.attached != b {
		return nil, b.box.wake
	}
	b.box.seen = now
	for _, l := range b.box.messages {
		if l.shown.IsZero() || now.Sub(l.shown) >= b.mailboxes.limits.Again {
			l.shown = now
			due = append(due, l.Message)
		}
	}
	return due, b.box.wake
}

// Ack drops messages that have arrived.
func (b *Box) Ack(ids []uint64) {
	b.mailboxes.mu.Lock()
	defer b.mailboxes.mu.Unlock()
	b.mailboxes.ackLocked(b.box, ids)
}

// Poll acknowledges the named messages and returns all other waiting messages, at once or
// on the next arrival, until ctx ends. Reading removes no message.
func (o *Mailboxes) Poll(ctx context.Context, owner member.Member, chain [][]byte, ack []uint64, now func() time.Time) ([]Message, error) {
	o.mu.Lock()
	b, err := o.openLocked(owner, chain, now())
	if err != nil {
		o.mu.Unlock()
		return nil, err
	}
	o.ackLocked(b, ack)
	b.waiters++
	defer func() {
		o.mu.Lock()
		b.waiters--
		b.seen = now()
		o.mu.Unlock()
	}()
	for {
		o.expireLocked(b, now())
		if len(b.messages) > 0 || o.boxes[owner] != b {
			all := make([]Message, 0, len(b.messages))
			for _, l := range b.messages {
				all = append(all, l.Message)
			}
			o.mu.Unlock()
			return all, nil
		}
		wake := b.wake
		o.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, nil
		}
		o.mu.Lock()
	}
}
