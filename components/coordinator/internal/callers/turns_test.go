package callers

import (
	"context"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"cadre.dev/raced/synctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A crowd from one source and the callers of other sources are served in turns.
func TestINP04_SourcesTakeTurnsAtTokenChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := newTurns(1)
		if !line.enter(t.Context(), "first") {
			t.Fatal("no turn without a queue")
		}
		served := make(chan string, 101)
		for range 100 {
			go func() {
				if line.enter(t.Context(), "crowd") {
					served <- "crowd"
				}
			}()
		}
		synctest.Wait()
		go func() {
			if line.enter(t.Context(), "other") {
				served <- "other"
			}
		}()
		synctest.Wait()
		for n := range 101 {
			line.leave()
			if got := <-served; (got == "other") != (n == 1) {
				t.Fatalf("turn %d was of %s", n, got)
			}
		}
		line.leave()
		if line.free != 1 || len(line.lanes) != 0 || len(line.order) != 0 {
			t.Errorf("left behind: %d free, %v, %v", line.free, line.lanes, line.order)
		}
	})
}

// A caller that gives up takes no turn, even if its turn comes at that moment.
func TestACallerThatGivesUpTakesNoTurn(t *testing.T) {
	line := newTurns(1)
	for n := range 1000 {
		if !line.enter(t.Context(), "first") {
			t.Fatal("no turn")
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool)
		go func() { gone <- line.enter(ctx, strconv.Itoa(n%3)) }()
		go cancel()
		line.leave()
		if <-gone {
			line.leave()
		}
	}
	if line.free != 1 || len(line.lanes) != 0 || len(line.order) != 0 {
		t.Errorf("left behind: %d free, %v, %v", line.free, line.lanes, line.order)
	}
}
