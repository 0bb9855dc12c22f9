package peer

import (
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// Change is one change of the path that a Link uses.
type Change struct {
	At       time.Time
	Peer     identity.ID
	From, To link.Kind
	// Reason is why, for people.
	Reason string
}

// historyLen is how many changes a Link remembers.
const historyLen = 16

// history is the last path changes of a Link, oldest first.
type history struct {
	changes []Change // never changed in place
	total   uint64
}

// last is the newest change; the zero Change when there was none.
func (h *history) last() Change {
	if len(h.changes) == 0 {
		return Change{To: link.KindNone}
	}
	return h.changes[len(h.changes)-1]
}

// kind is the path in use.
func (h *history) kind() link.Kind { return h.last().To }

// note adds a change and reports whether the path differs.
func (h *history) note(at time.Time, peer identity.ID, to link.Kind, reason string) (Change, bool) {
	from := h.kind()
	if from == to {
		return Change{}, false
	}
	c := Change{At: at, Peer: peer, From: from, To: to, Reason: reason}
	h.changes = append(h.changes[max(0, len(h.changes)-historyLen+1):len(h.changes):len(h.changes)], c)
	h.total++
	return c, true
}

// note records and reports that another path is in use, or none.
func (c *core) note(kind link.Kind, reason, remote string) {
	change, changed := c.history.note(time.Now(), c.id, kind, reason)
	if !changed {
		return
	}
	c.log.Info("path changed", "path", string(change.To), "from", string(change.From), "remote", remote, "reason", reason)
	if c.node.Report != nil {
		c.node.Report(change)
	}
}

// reasonFor says why a class is used now.
func reasonFor(class link.Class, before link.Kind) string {
	switch {
	case class == link.NoClass:
		return "no session is left"
	case before == link.KindNone:
		return "the first path that came up"
	case before.Class() > class:
		return "the " + string(before) + " path died"
	}
	return class.String() + " is preferred to " + string(before)
}
