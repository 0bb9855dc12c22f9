package limit

import (
	"context"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// sitter takes a place and does nothing until it is shown out or the test ends.
func sitter(t *testing.T, d *Limiter, patience time.Duration) (p *Place, out <-chan struct{}) {
	t.Helper()
	gone := make(chan struct{})
	p, ok := d.Enter(t.Context(), patience, func() { close(gone) })
	if !ok {
		t.Fatal("no place")
	}
	return p, gone
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Any number of idle callers keep no other caller out.
func TestINP06_IdleCallersAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(4, 8, 10*time.Second)
		outs := make([]<-chan struct{}, 0, 4)
		for range 4 {
			_, out := sitter(t, d, time.Second)
			outs = append(outs, out)
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		p, ok := d.Enter(t.Context(), time.Second, func() { t.Error("shown out within its patience") })
		if waited := time.Since(began); !ok || waited > time.Second {
			t.Fatalf("let in: %t, after %v", ok, waited)
		}
		synctest.Wait()
		if !isClosed(outs[0]) || isClosed(outs[1]) {
			t.Error("the limiter evicted another caller than the longest idle one")
		}
		p.Leave()
	})
}

// A caller with progress stays, and a caller that waits for its place for too long gets
// an error.
func TestCallersWithProgressStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, 1, 3*time.Second)
		first, out := sitter(t, d, time.Second)
		first.GotOn(time.Minute)
		if _, ok := d.Enter(t.Context(), time.Second, func() {}); ok || isClosed(out) {
			t.Fatal("took the place of a caller with progress")
		}
		if d.Waiting() != 0 {
			t.Error("still in line")
		}
		first.Leave()
		if p, ok := d.Enter(t.Context(), time.Second, func() {}); !ok {
			t.Error("no place, though it is free")
		} else {
			p.Leave()
		}
	})
}

func TestTheLineIsBoundedAndFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, 2, time.Minute)
		first, _ := sitter(t, d, time.Hour)
		order := make(chan int, 2)
		for i := range 2 {
			go func() {
				p, ok := d.Enter(t.Context(), time.Hour, func() {})
				if ok {
					order <- i
					p.Leave()
				}
			}()
			synctest.Wait()
		}
		if _, ok := d.Enter(t.Context(), time.Hour, func() {}); ok {
			t.Fatal("a third one in a line of two")
		}
		first.Leave()
		if a, b := <-order, <-order; a != 0 || b != 1 {
			t.Errorf("let in %d before %d", a, b)
		}
		synctest.Wait()
		if d.Waiting() != 0 || d.Inside() != 0 || d.timer != nil {
			t.Errorf("left behind: %d waiting, %d inside, timer %v", d.Waiting(), d.Inside(), d.timer)
		}
	})
}

func TestNoLineTurnsAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, 0, time.Minute)
		sitter(t, d, time.Second)
		began := time.Now()
		if _, ok := d.Enter(t.Context(), time.Second, func() {}); ok || time.Since(began) != 0 {
			t.Errorf("let in: %t, after %v", ok, time.Since(began))
		}
		time.Sleep(time.Second)
		if _, ok := d.Enter(t.Context(), time.Second, func() {}); !ok {
			t.Error("the overdue one was not shown out")
		}
	})
}

// A caller that leaves while it waits takes no place.
func TestCancelledCallersTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(1, 4, time.Minute)
		first, _ := sitter(t, d, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool)
		go func() {
			_, ok := d.Enter(ctx, time.Hour, func() {})
			gone <- ok
		}()
		synctest.Wait()
		cancel()
		if <-gone {
			t.Error("let in")
		}
		first.Leave()
		if p, ok := d.Enter(t.Context(), time.Hour, func() {}); !ok {
			t.Error("the place is lost")
		} else {
			p.Leave()
		}
	})
}
