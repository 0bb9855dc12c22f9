package paths

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The following holds for any order of facts. A path in use was answered once. While any
// path works, the path in use works. No effect names an unknown path. The State never
// asks for an endless series of immediate calls.
func TestInvariants(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var s State
		var now time.Duration
		var history []string
		seqs := map[ID][]uint64{}
		var last ID
		var seq uint64
		note := func(format string, a ...any) {
			history = append(history, fmt.Sprintf("%v ", now)+fmt.Sprintf(format, a...))
		}
		fail := func(format string, a ...any) {
			t.Helper()
			from := max(0, len(history)-30)
			t.Fatalf("seed %d: %s\n%v", seed, fmt.Sprintf(format, a...), history[from:])
		}
		for range 300 {
			now += time.Duration(r.IntN(1 << r.IntN(32)))
			id := ID(r.IntN(int(last) + 1))
			switch r.IntN(8) {
			case 0:
				search := fmt.Sprint(r.IntN(4))
				evict, ok := s.Room(search)
				if !ok {
					break
				}
				if evict != 0 {
					if evict == s.InUse() {
						fail("the path in use makes way")
					}
					s.Remove(evict)
				}
				last++
				s.Add(now, last, search, []Kind{Direct, Relay}[r.IntN(2)])
				note("add %d instead of %d", last, evict)
			case 1:
				if r.IntN(8) == 0 {
					s.Remove(id)
					note("remove %d", id)
				}
			case 2:
				s.Traffic(now, id, r.IntN(2) == 0, r.IntN(2) == 0)
			case 3:
				s.Heard(now, id, r.IntN(2) == 0)
			case 4, 5, 6:
				if q := seqs[id]; len(q) > 0 {
					note("echo %d: %v", id, s.Echo(now, id, q[r.IntN(len(q))]))
				}
			case 7:
				if got, ok := s.Rebound(fmt.Sprint(r.IntN(4)), now-time.Duration(r.IntN(1e9))); ok {
					s.Proven(now, got, time.Millisecond)
					note("proven %d", got)
				}
			}
			for _, e := range append([]Effect(nil), s.Tick(now)...) {
				note("%v", e)
				switch {
				case e.Do == SendProbe:
					seq++
					seqs[e.Path] = append(seqs[e.Path], seq)
					s.Sent(now, e.Path, seq)
				case e.Do == Drop || e.Path == 0:
				case s.find(e.Path) == nil:
					fail("%v for an unknown path", e)
				}
			}
			works := false
			for _, p := range s.paths {
				works = works || p.state == Up
			}
			p := s.find(s.InUse())
			switch {
			case s.InUse() != 0 && (p == nil || p.state == Probing || !p.accepted):
				fail("in use: %d", s.InUse())
			case works && (p == nil || p.state != Up):
				fail("%d is in use while another works", s.InUse())
			case works != s.working:
				fail("the owner thinks %v, it is %v", s.working, works)
			case len(s.paths) > PerLink:
				fail("%d paths", len(s.paths))
			case s.Next(now) <= now:
				fail("wants to be called again at once")
			}
		}
	}
}
