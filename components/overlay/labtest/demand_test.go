package labtest

import (
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/overlaynode"
)

// Without a gateway a Session on demand is made through the rendezvous, whichever side
// calls: one side dials, the other side nudges. Without use, the Session ends with its
// paths.
func TestOnDemandThroughTwoNATs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{Delay: 5 * time.Millisecond})
	b.group = "web"
	b.renew()
	a.idle, b.idle = 3*time.Second, 3*time.Second
	a.run()
	b.run()
	for _, way := range [][2]*node{{a, b}, {b, a}, {a, b}} {
		for _, side := range [][2]*node{{a, b}, {b, a}} {
			side[0].await(side[1], "rest", 30*time.Second, func(i overlay.SessionInfo) bool {
				return i.State == overlay.SessionIdle && len(i.Candidates) == 0 && !i.Searching
			})
		}
		got := way[0].ask(overlaynode.Request{Verb: overlaynode.Dial, Addr: way[0].echo(way[1]), For: 30 * time.Second})
		t.Logf("%s calls %s: first echo in %v, %d lost connections", way[0].slot, way[1].slot, got.RTT, got.Reconnects)
		if s := way[0].session(way[1]); !isDirect(s.Path) {
			t.Errorf("%s to %s: path %s, want a direct one", way[0].slot, way[1].slot, s.Path)
		}
	}
}

func isDirect(p overlay.PathKind) bool {
	return p == overlay.PathDirectTCP || p == overlay.PathDirectUDP
}
