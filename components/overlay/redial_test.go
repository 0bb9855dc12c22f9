package overlay

import (
	"context"
	"errors"
	"testing"

	"cadre.dev/overlay/internal/link"
)

// TestARedialMakesWay: a Session that is being made with a Boot of the past neither
// outlives what ends the search nor holds up whoever comes after.
func TestARedialMakesWay(t *testing.T) {
	l := &peerLink{finder: finder{dialing: make(chan struct{}, 1)}}
	ended := 0
	for _, e := range []link.Effect{link.StopFind{}, link.StopFind{}} {
		if ended == 0 {
			l.finder.redialing = func() { ended++ }
		}
		l.doFindLocked(e)
	}
	if ended != 1 {
		t.Errorf("ended %d times, want once", ended)
	}
	l.finder.dialing <- struct{}{}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := l.dialDatagrams(ctx, "b2"); !errors.Is(err, gone) {
		t.Errorf("behind another: %v, want %v", err, gone)
	}
}
