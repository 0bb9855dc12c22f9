package underlay

import (
	"encoding/binary"
	"net"
	"testing"
)

func stunMessage(n byte) []byte {
	b := make([]byte, stunHeader)
	b[1] = 1
	binary.BigEndian.PutUint32(b[4:], stunCookie)
	b[19] = n
	return b
}

// STUN passes both ways in parallel with QUIC, with and without a reader of QUIC.
func TestSTUNIsSorted(t *testing.T) {
	a, b := joined(t)
	exchange := func(n byte) {
		t.Helper()
		if _, err := a.s.STUN().WriteTo(stunMessage(n), b.s.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1500)
		got, from, err := b.s.STUN().ReadFrom(buf)
		if err != nil || string(buf[:got]) != string(stunMessage(n)) || from.String() != a.s.LocalAddr().String() {
			t.Fatalf("got %x from %v: %v", buf[:got], from, err)
		}
	}
	exchange(1)
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	exchange(2)
	transfer(t, near, far, content(1<<20, 1))
	exchange(3)

	c := b.s.STUN()
	end := make(chan error, 1)
	go func() {
		_, _, err := c.ReadFrom(make([]byte, 1500))
		end <- err
	}()
	_ = c.Close()
	if err := <-end; err == nil {
		t.Error("a closed side reads on")
	}
	exchange(4)
}

func TestSTUNFloodIsBounded(t *testing.T) {
	s := open(t)
	from := udp(t)
	defer from.Close()
	for range 4 * stunQueue {
		if _, err := from.WriteToUDP(stunMessage(0), s.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "drops", func() bool { return s.Stats().Dropped.STUNFull > 0 })
}

func TestClassify(t *testing.T) {
	long := stunMessage(0)
	for _, c := range []struct {
		b    []byte
		want class
	}{
		{nil, classOther},
		{[]byte{0x40}, classQUIC},
		{[]byte{0xc3, 1, 2}, classQUIC},
		{[]byte{0x80}, classQUIC},
		{[]byte{probeMark}, classProbe},
		{long, classSTUN},
		{long[:19], classOther},
		{[]byte{4, 0, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, classOther},
		{make([]byte, 100), classOther},
		{[]byte{0x3f}, classOther},
	} {
		if got := classify(c.b); got != c.want {
			t.Errorf("classify(%x) = %d, want %d", c.b, got, c.want)
		}
	}
}

// Errors of one destination are loss for QUIC, and STUN's sender gets them.
func TestSendErrorsAreLoss(t *testing.T) {
	s := open(t)
	l := s.NewLink("x")
	// A socket on the loopback cannot send to the world.
	l.Add(Path{Search: "one", Kind: Direct, Remote: relayAt, Key: secret(1)})
	l.mu.Lock()
	l.out.Store(l.paths[0])
	l.mu.Unlock()
	before := s.Stats().Dropped.SendErrors
	n, err := s.QUIC().WriteTo([]byte{0x40}, l.VirtualAddr())
	if n != 1 || err != nil {
		t.Errorf("wrote %d: %v", n, err)
	}
	if s.Stats().Dropped.SendErrors == before {
		t.Skip("this machine lets the loopback send to the world")
	}
	if _, err := s.STUN().WriteTo(stunMessage(0), net.UDPAddrFromAddrPort(relayAt)); err == nil {
		t.Error("STUN got no error")
	}
	none := s.NewLink("none")
	if _, err := s.QUIC().WriteTo([]byte{0x40}, none.VirtualAddr()); err != nil {
		t.Errorf("no path: %v", err)
	}
	if s.Stats().Dropped.NoPath != 1 {
		t.Errorf("%+v", s.Stats().Dropped)
	}
}
