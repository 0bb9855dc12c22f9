package underlay

import (
	"net"
)

// relay moves the datagrams of one relayed path. A relay may run over TCP and stall. It
// has a goroutine and a queue each way, so that a stall delays only the relay.
type relay struct {
	path  *path
	conn  net.Conn
	out   chan *packet
	ended chan struct{}
}

const (
	relayOut = 512
	// relayRead is more than a relay delivers at a time.
	relayRead = 8 << 10
)

// newRelay takes over conn, with the Link's lock held.
func newRelay(p *path, conn net.Conn) *relay {
	r := &relay{path: p, conn: conn, out: make(chan *packet, relayOut), ended: make(chan struct{})}
	p.link.running.Go(r.read)
	p.link.running.Go(r.write)
	return r
}

// stop ends both goroutines, without waiting; called once, with the Link's lock
// held.
func (r *relay) stop() {
	close(r.ended)
	r.path.link.running.Go(func() { _ = r.conn.Close() })
}

// send queues datagrams of size bytes each. Datagrams that do not fit are lost.
func (r *relay) send(b []byte, size int) error {
	c := &r.path.link.s.counts
	for len(b) > 0 {
		n := min(size, len(b))
		p := newPacket(b[:n], nil)
		b = b[n:]
		if p == nil {
			c.oversized.Add(1)
			continue
		}
		select {
		case r.out <- p:
		default:
			p.release()
			c.relayFull.Add(1)
		}
	}
	return nil
}

func (r *relay) write() {
	c := &r.path.link.s.counts
	for {
		select {
		case <-r.ended:
			return
		case p := <-r.out:
			c.syscallsOut.Add(1)
			if _, err := r.conn.Write(p.bytes()); err != nil {
				c.sendErrors.Add(1)
			}
			p.release()
		}
	}
}

func (r *relay) read() {
	l := r.path.link
	c := &l.s.counts
	b := make([]byte, relayRead)
	for {
		n, err := r.conn.Read(b)
		if err != nil {
			l.relayEnded(r.path, err)
			return
		}
		c.syscallsIn.Add(1)
		c.datagramsIn.Add(1)
		c.bytesIn.Add(uint64(n))
		switch classify(b[:n]) {
		case classProbe:
			l.s.probed(b[:n], *r.path.remote.Load(), r.path, l.s.now())
		case classQUIC:
			r.path.received.Add(1)
			r.path.bytesIn.Add(uint64(n))
			l.s.receiver.inject(r.path, b[:n])
		case classSTUN, classOther:
			c.unknown.Add(1)
		}
	}
}

// relayEnded drops a path after the end of its relay.
func (l *Link) relayEnded(p *path, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.findLocked(p.id) != p {
		return
	}
	l.log.Info("relay ended", "search", p.search.name, "path", p.name(), "error", err)
	l.dropLocked(p.id, "relay ended")
	l.stepLocked(l.s.now())
}
