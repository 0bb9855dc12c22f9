package peer

import (
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With concurrent callers of post and ask, functions run alone, and the functions of one
// goroutine run in order.
func TestALoopRunsOneAtATimeInOrder(t *testing.T) {
	const askers, each = 8, 200
	got := make([][]int, askers)
	l := loop[[][]int]{value: got}
	var wg sync.WaitGroup
	for who := range askers {
		wg.Go(func() {
			for i := range each {
				note := func(all [][]int) { all[who] = append(all[who], i) }
				if who%2 == 0 {
					l.post(note)
				} else if !l.ask(note) {
					t.Error("an open loop refuses")
				}
			}
		})
	}
	wg.Wait()
	l.close()
	for who, seen := range got {
		if len(seen) != each || !slices.IsSorted(seen) {
			t.Errorf("of goroutine %d ran %v", who, seen)
		}
	}
}

func TestAClosedLoopRefuses(t *testing.T) {
	count := 0
	l := loop[*int]{value: &count}
	if !l.post(func(n *int) { *n++ }) {
		t.Error("an open loop refuses")
	}
	l.close()
	if l.post(func(n *int) { *n++ }) || l.ask(func(n *int) { *n++ }) || count != 1 {
		t.Errorf("a closed loop ran %d functions, want the one from before", count)
	}
}
