package search

import (
	"context"
	"errors"
	"testing"
)

// A Session that is being made with a Boot of the past ends with the search, and does not
// delay the next caller.
func TestARedialMakesWay(t *testing.T) {
	ended := 0
	f := &Finder{dialing: make(chan struct{}, 1), redialing: func() { ended++ }}
	f.Stop()
	f.Stop()
	if ended != 1 {
		t.Errorf("ended %d times, want once", ended)
	}
	f.dialing <- struct{}{}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := f.dialDatagrams(ctx, "b2"); !errors.Is(err, gone) {
		t.Errorf("behind another: %v, want %v", err, gone)
	}
}
