package mailbox

import (
	"bytes"
	"errors"
	"time"

	"cadre.dev/overlay/internal/signal"
)

// receive opens one envelope and reports whether the server may drop it. It
// keeps it while the reader of Messages has no room: the server sends it again.
func (ses *session) receive(envelope []byte) bool {
	now := ses.server.client.now()
	me := ses.present()
	opened, err := signal.Open(envelope, me.ID, me.Certificate, me.Roots, now)
	if err == nil {
		var room bool
		if room, err = ses.server.client.take(opened, now); !room {
			return false
		}
	}
	if err == nil {
		ses.remember(opened.From.ID, knownBoot{boot: opened.From.BootID, leaf: bytes.Clone(opened.Leaf.Raw)})
	}
	ses.server.count(func(st *ServerStatus) {
		switch {
		case err == nil:
			st.Received++
		case errors.Is(err, signal.ErrStale):
			st.Duplicates++
		default:
			st.Forged++
		}
	})
	if err != nil && !errors.Is(err, signal.ErrStale) {
		if ses.server.mayWarn("message") {
			ses.server.log.Warn("signaling message refused", "code", string(signal.CodeOf(err)), "error", err)
		}
	}
	return true
}

// take passes a proven message on, once. room is false when the reader is slow.
func (c *Client) take(o signal.Opened, now time.Time) (room bool, err error) {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	if len(c.incoming) == cap(c.incoming) {
		return false, nil
	}
	if err := c.guard.Admit(o, now); err != nil {
		return true, err
	}
	c.incoming <- Incoming{From: o.From, Message: o.Message} // only writers under deliver: there is room
	return true, nil
}
