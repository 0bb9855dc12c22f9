package reconcile

import (
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// The holder of a turn waits for the store. A cut connection to the store ends in virtual time only.
func TestVirtualTimeGoesOnWhileAPassWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTurn()
		store.Lock()
		taken := make(chan time.Time)
		go func() {
			store.Lock()
			defer store.Unlock()
			taken <- time.Now()
		}()
		time.Sleep(time.Hour)
		released := time.Now()
		store.Unlock()
		if at := <-taken; at.Before(released) {
			t.Errorf("two goroutines had the turn at once: %s before its release", released.Sub(at))
		}
	})
}
