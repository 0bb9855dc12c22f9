package link

import (
	"reflect"
	"testing"
)

// demanded is facts of a Link on demand.
func demanded(dials bool, instance string) Facts {
	return Facts{Dials: dials, Boot: "b1", Instance: instance, OnDemand: true, Calls: true}
}

func TestIdleScripts(t *testing.T) {
	long := 2 * steady
	finding := demanded(true, "i1")
	finding.Finds = true
	following := demanded(false, "i1")
	following.Finds = true
	hidden := demanded(false, "")
	hidden.Finds = true
	kept := demanded(true, "i1")
	kept.OnDemand = false
	for name, script := range map[string][]scriptStep{
		"sleeps until a connection needs it": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Quiet{}, Asleep, nil},
			{RendezvousUp{}, Asleep, nil},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Wanted{}, Dialing, nil},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Try: 2}, Up, []Effect{Use{1}}},
			{Wanted{}, Up, nil},
		},
		"rests when the peer agrees": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Idle{}, Up, nil},
			{Wanted{}, Up, nil}, // the answer decides
			{Rested{1, true}, Asleep, []Effect{Close{1, ErrIdle}, Cancel{}, Forget{}}},
			{Lost{Session: 1, Lived: long}, Asleep, nil},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}}},
		},
		"goes on when the peer minds": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Rested{1, false}, Up, []Effect{Use{1}}},
			{Rested{1, true}, Up, nil}, // of no question
		},
		"yields to the peer that asks": {
			{Changed{demanded(false, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Asked{}, Asleep, []Effect{Yield{1}, Yield{2}, Use{}, Cancel{}, Forget{}}},
			{Lost{Session: 2, Lived: long}, Asleep, nil},
			{Lost{Session: 1, Lived: long}, Asleep, nil},
		},
		"both ask at once, with two sessions": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 2}}},
			{Asked{}, Asleep, []Effect{Yield{1}, Close{1, ErrIdle}, Yield{2}, Close{2, ErrIdle}, Cancel{}, Forget{}}},
		},
		"both ask at once": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Asked{}, Asleep, []Effect{Yield{1}, Close{1, ErrIdle}, Cancel{}, Forget{}}},
			{Rested{1, true}, Asleep, nil},
		},
		"the peer restarts before its answer": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Stray: true}, Up, []Effect{Use{2}}},
			{Rested{1, true}, Up, []Effect{Close{1, ErrIdle}}},
		},
		"a session that dies while the peer is asked is not missed": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Lost{Session: 1, Lived: long}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Rested{1, true}, Asleep, nil},
		},
		"a peer that calls while it is asked is not left": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Nudged{Boot: "b1"}, Up, []Effect{Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Rested{1, true}, Dialing, []Effect{Close{1, ErrIdle}, Cancel{}, Dial{3, "i1", "b1"}}},
		},
		"nor where the session dies first": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Nudged{Boot: "b1"}, Up, []Effect{Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Lost{Session: 1, Lived: long}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Unanswered{1}, Dialing, nil},
		},
		"a call that the peer wants answered no more is forgotten": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Nudged{Boot: "b1"}, Up, []Effect{Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Rested{1, false}, Up, []Effect{Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{2, 1}}},
			{Rested{2, true}, Asleep, []Effect{Close{1, ErrIdle}, Cancel{}, StopFind{}, Forget{}}},
		},
		"a session that is being made over a path is not cut": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}, Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Try: 2}, Up, []Effect{Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Making{1}, Up, nil},
			{Rested{1, true}, Dialing, []Effect{Close{1, ErrIdle}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Making{-1}, Up, nil},
		},
		"an answer to an older question ends nothing": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Lost{Session: 1, Lived: long}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{2}}},
			{Idle{}, Up, []Effect{Use{}, Rest{2, 2}}},
			{Rested{1, true}, Up, nil},
			{Rested{2, false}, Up, []Effect{Use{2}}},
		},
		"a session that dies in use is made again": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Lost{Session: 1, Lived: long}, Dialing, []Effect{Use{}, Cancel{}, Dial{3, "i1", "b1"}}},
			{Idle{}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Failed{Try: 3}, Asleep, nil},
		},
		"the side that dials begins a search too": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}, Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Idle{}, Asleep, []Effect{Cancel{}, StopFind{}, Forget{}}},
			{Nudged{Boot: "b1"}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}, Find{Epoch: 2, Controlling: true, Boot: "b1"}}},
		},
		"the other side nudges, and dials itself when the peer does not": {
			{Changed{following}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{2, callAfter}, Nudge{}}},
			{Wanted{}, BackOff, nil},
			{Timer{2}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Offered{Epoch: 5, Boot: "b1"}, Dialing, []Effect{Find{Epoch: 5, Boot: "b1"}}},
			// Its own dial may be in use over there already: it is not cut.
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Stray: true, Try: 3}, Up, []Effect{Retire{2}}},
		},
		"the other side nudges again where it cannot go itself": {
			{Changed{hidden}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{2, callAfter}, Nudge{}}},
			{Wanted{}, BackOff, nil},
			{Timer{2}, Awaited, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{4, callAfter}, Nudge{}}},
			{Offered{Epoch: 5, Boot: "b1"}, Dialing, []Effect{Find{Epoch: 5, Boot: "b1"}}},
			{Timer{4}, Dialing, []Effect{Cancel{}}},
			{Wanted{}, Dialing, nil},
		},
		"without a rendezvous the other side goes itself at once": {
			{Changed{demanded(false, "i1")}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Stray: true, Try: 2}, Up, []Effect{Use{1}}},
			{Lost{Session: 1, Lived: long}, Awaited, []Effect{Use{}}},
		},
		"a stray session makes way at the side that dials": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Stray: true}, Up, []Effect{Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Try: 2}, Up, []Effect{Use{2}, Retire{1}}},
			{Lost{Session: 2, Lived: long}, Up, []Effect{Use{1}}},
		},
		"a peer that is kept after all is searched for": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Changed{kept}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Idle{}, Dialing, nil},
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

// No answer is no agreement: the Peer may use another Session, and is asked over that.
func TestAnUnheardAnswerIsAskedForAgain(t *testing.T) {
	s, _ := State{}.Step(Changed{Facts: Facts{Boot: "b", Calls: true, OnDemand: true, Instance: "i"}})
	s, _ = s.Step(Connected{Session: 1, Boot: "b", Class: Gateway, Stray: true})
	s, _ = s.Step(Connected{Session: 2, Boot: "b", Class: Gateway})
	if used, _ := s.InUse(); used != 2 {
		t.Fatalf("session %d is used, want 2", used)
	}
	s, _ = s.Step(Idle{})
	s, effects := s.Step(Unanswered{Question: 1})
	want := []Effect{Close{Session: 2, Reason: ErrIdle}, Rest{Question: 2, Session: 1}}
	if !reflect.DeepEqual(effects, want) || !s.Asking() {
		t.Fatalf("without an answer: %v, asking %v, want %v", effects, s.Asking(), want)
	}
	refused, effects := s.Step(Rested{Question: 2})
	if used, _ := refused.InUse(); used != 1 || refused.Phase() != Up {
		t.Errorf("refused over the other: %v, session %d is used, want 1", effects, used)
	}
	if unanswered, effects := s.Step(Unanswered{Question: 2}); unanswered.Phase() != Asleep {
		t.Errorf("never answered: %v in %s, want %s", effects, unanswered.Phase(), Asleep)
	}
}
