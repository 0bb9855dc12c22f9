package link

import (
	"errors"
	"slices"
	"testing"
)

// A Peer process that starts again on the same CVM is the same Boot. Its new Session
// counts although the old one is not known to be dead yet.
func TestANewSessionOfTheSameBootTakesOver(t *testing.T) {
	up := func(class Class) State {
		s, _ := State{}.Step(Changed{Facts: Facts{Boot: "b"}})
		s, _ = s.Step(Connected{Session: 1, Boot: "b", Class: class})
		if use, _ := s.InUse(); use != 1 {
			t.Fatalf("session 1 on %s is not used", class)
		}
		return s
	}
	for _, class := range []Class{Relay, Gateway, DirectUDP, DirectTCP} {
		s, effects := up(class).Step(Connected{Session: 2, Boot: "b", Class: class})
		if use, _ := s.InUse(); use != 2 || !slices.ContainsFunc(effects, func(e Effect) bool {
			c, is := e.(Close)
			return is && c.Session == 1 && errors.Is(c.Reason, ErrReplaced)
		}) {
			t.Errorf("%s: session %d is used, %+v", class, use, effects)
		}
	}
	// Of another class it stands by until the old one is suspected or lost.
	for _, end := range []Event{Suspected{Session: 1, Suspect: true}, Lost{Session: 1}} {
		s, _ := up(DirectUDP).Step(Connected{Session: 2, Boot: "b", Class: Gateway})
		if use, _ := s.InUse(); use != 1 {
			t.Errorf("before %T session %d is used", end, use)
		}
		if s, _ = s.Step(end); func() uint64 { use, _ := s.InUse(); return use }() != 2 {
			t.Errorf("after %T the new session is not used", end)
		}
	}
}
