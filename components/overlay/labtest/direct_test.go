package labtest

import (
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/meshnode"
)

// pair is two nodes, each behind a NAT of its own, and a rendezvous.
func (w *world) pair(a, b natlab.NAT, link natlab.Link) (*node, *node) {
	w.t.Helper()
	w.rendezvousAt("rendezvous", natlab.Link{})
	hostA, err := w.lab.Behind("host-a", a, link)
	if err != nil {
		w.t.Fatal(err)
	}
	hostB, err := w.lab.Behind("host-b", b, link)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.place("db-0", hostA), w.place("db-1", hostB)
}

func TestDirectTCPThroughTwoNATs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{Delay: 5 * time.Millisecond})
	a.run()
	b.run()
	a.awaitPath(b, overlay.PathDirectTCP)
	b.awaitPath(a, overlay.PathDirectTCP)
	got := a.ask(meshnode.Request{Verb: meshnode.Dial, Addr: a.echo(b), For: 20 * time.Second})
	t.Logf("echo in %v; %+v", got.RTT, a.session(b))
	b.ask(meshnode.Request{Verb: meshnode.Dial, Addr: b.echo(a), For: 20 * time.Second})
	a.ask(meshnode.Request{Verb: meshnode.Datagram, Addr: a.echo(b), For: 20 * time.Second, Bytes: 100})
}
