package slowlink

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestLineKeepsItsRate(t *testing.T) {
	l := newLine(Params{RateMbps: 100, Delay: 5 * time.Millisecond, QueueBytes: 30_000}, 1)
	// 30 packets at once: 20 are in the queue (1,500 bytes each) and one is being sent.
	var arrived []int64
	dropped := 0
	for range 30 {
		switch f, at := l.offer(0, 1500); f {
		case onTime:
			arrived = append(arrived, at)
		case full:
			dropped++
		default:
			t.Fatalf("fate %d", f)
		}
	}
	if len(arrived) != 20 || dropped != 10 {
		t.Errorf("%d arrive, %d are dropped", len(arrived), dropped)
	}
	for i, at := range arrived {
		if want := int64(5*time.Millisecond) + int64(i+1)*int64(120*time.Microsecond); at != want {
			t.Errorf("packet %d arrives at %v, want %v", i, time.Duration(at), time.Duration(want))
		}
	}
	// Once it has drained, the link is as fast as before.
	if _, at := l.offer(int64(time.Second), 1500); at != int64(time.Second+5*time.Millisecond+120*time.Microsecond) {
		t.Errorf("later one arrives at %v", time.Duration(at))
	}
}

func TestLineLosesAndHoldsBackItsShare(t *testing.T) {
	l := newLine(Params{Loss: 0.1, Reorder: 0.05, Delay: 10 * time.Millisecond, Jitter: 3 * time.Millisecond}, 2)
	const n = 100_000
	var count [4]int
	var last int64
	for i := range n {
		now := int64(i) * 1000
		f, at := l.offer(now, 100)
		count[f]++
		switch f {
		case onTime:
			if at < last {
				t.Fatalf("packet %d on time arrives at %d, before the last at %d", i, at, last)
			}
			last = at
		case held:
			if at < now+int64(8*time.Millisecond) {
				t.Fatalf("packet %d held back arrives %v after it left", i, time.Duration(at-now))
			}
		case lost, full:
		}
	}
	if l, h := count[lost], count[held]; l < n/10-n/100 || l > n/10+n/100 || h < n/25 || h > n/20 {
		t.Errorf("%d lost, %d held back of %d", l, h, n)
	}
}

func TestPerfectLine(t *testing.T) {
	l := newLine(Params{}, 3)
	for range 10 {
		if f, at := l.offer(7, 65000); f != onTime || at != 7 {
			t.Fatalf("fate %d at %d", f, at)
		}
	}
}

// For any input, no packet comes out twice or too early, and lost packets are counted.
func TestDirectionAccountsForEveryPacket(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	d := direction{line: newLine(Params{RateMbps: 50, Delay: time.Millisecond, Loss: 0.05, Reorder: 0.05, QueueBytes: 100_000}, 5)}
	var now, last int64
	var offered, came int64
	for range 3000 {
		now += rng.Int64N(int64(3 * time.Millisecond))
		frame := tcpFrame(t, 1448, 1+rng.IntN(40_000))
		n := int64(1)
		if s, many := shapeOf(frame); many {
			n = int64(s.count())
		}
		offered += n
		d.offer(now, frame)
		for at, ok := d.next(); ok && at <= now; at, ok = d.next() {
			if at < last {
				t.Fatalf("due at %d after %d", at, last)
			}
			last = at
			f := d.take()
			came++
			if s, many := shapeOf(f); many {
				came += int64(s.count()) - 1
			}
			d.recycle(f)
		}
		last = min(last, now)
	}
	for _, ok := d.next(); ok; _, ok = d.next() {
		f := d.take()
		came++
		if s, many := shapeOf(f); many {
			came += int64(s.count()) - 1
		}
		d.recycle(f)
	}
	s := d.stats
	if offered != came+s.Lost+s.QueueDrops || s.Packets != came || d.fly != 0 || s.Lost == 0 || s.QueueDrops == 0 || s.Delayed == 0 {
		t.Errorf("offered %d, came %d, in flight %d bytes, stats %+v", offered, came, d.fly, s)
	}
}
