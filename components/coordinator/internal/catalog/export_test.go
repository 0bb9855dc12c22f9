package catalog

import (
	"context"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
)

// Idle waits until no Slot is due or under evaluation.
func (w *Writer) Idle(ctx context.Context) error {
	for {
		w.mu.Lock()
		idle := len(w.due) == 0 && w.evaluating == 0
		w.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// AwaitGone waits until the Writer has noticed that the Slot has no admission.
func (w *Writer) AwaitGone(ctx context.Context, slot string) error {
	for {
		w.mu.Lock()
		_, gone := w.gone[slot]
		w.mu.Unlock()
		if gone {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// RegisterCaller makes the registration of a Boot that was evicted meanwhile.
func (w *Writer) RegisterCaller(ctx context.Context, group, slot, boot, vip string) error {
	return w.registerCallers(ctx, Entry{Group: group, Slot: slot, Boot: boot, VIP: vip}, []Service{{
		ID: group + "-sidecar-proxy", Address: "127.0.0.1", Port: 20999, Destination: group, Upstreams: []Upstream{{"r", "127.10.0.1", 80}},
	}})
}

// Hear copies the member's own report into m.
func Hear(m *Member, got reports.Received) { m.hear(got) }

// MemberOf returns the data in the records of v about the Boot of a Slot.
func MemberOf(v *view.View, slot string) (Member, bool) {
	return (&Writer{meshes: map[string]meshAt{}}).memberOf(v, slot)
}
