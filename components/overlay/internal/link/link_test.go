package link

import (
	"reflect"
	"slices"
	"testing"
)

func facts(boot, instance string) Facts { return Facts{Dials: true, Boot: boot, Instance: instance} }

// finds is facts of a node that can look for paths, and has no gateway.
func finds(boot string) Facts { return Facts{Dials: true, Boot: boot, Finds: true} }

type scriptStep struct {
	on    Event
	phase Phase
	want  []Effect
}

func play(t *testing.T, script []scriptStep) State {
	t.Helper()
	var s State
	for i, st := range script {
		var got []Effect
		s, got = s.Step(st.on)
		if len(got) == 0 {
			got = nil
		}
		if !reflect.DeepEqual(got, st.want) || s.Phase() != st.phase {
			t.Fatalf("step %d, %#v: got %s %#v, want %s %#v", i, st.on, s.Phase(), got, st.phase, st.want)
		}
	}
	return s
}

// Each case is a script of events with the expected effects of each event.
func TestGatewayDialerScripts(t *testing.T) {
	long, short := 2*steady, steady/2
	for name, script := range map[string][]scriptStep{
		"dialer connects, loses, redials at once": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 7, Boot: "b1", Class: Gateway, Try: 1}, Up, []Effect{Use{7}}},
			{Changed{facts("b1", "i1")}, Up, nil},
			{Lost{Session: 6, Lived: long}, Up, nil},
			{Lost{Session: 7, Lived: long}, Dialing, []Effect{Use{}, Cancel{}, Dial{3, "i1", "b1"}}},
		},
		"a session that flaps backs off": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 7, Boot: "b1", Class: Gateway, Try: 1}, Up, []Effect{Use{7}}},
			{Lost{Session: 7, Lived: short}, BackOff, []Effect{Use{}, Cancel{}, Arm{3, backOffMin / 2}}},
			{Timer{Try: 2}, BackOff, nil},
			{Timer{Try: 3}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}}},
		},
		"failures wait longer each time, new facts not at all": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Failed{Try: 1}, BackOff, []Effect{Cancel{}, Arm{2, backOffMin / 2}}},
			{Timer{2}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Failed{Try: 3, Jitter: 1}, BackOff, []Effect{Cancel{}, Arm{4, 2 * backOffMin}}},
			{Changed{facts("b1", "i1")}, BackOff, nil},
			{Changed{facts("b2", "i1")}, Dialing, []Effect{Cancel{}, Dial{5, "i1", "b2"}}},
			{Timer{4}, Dialing, nil},
			{Failed{Try: 3}, Dialing, nil},
			{Failed{Try: 5}, BackOff, []Effect{Cancel{}, Arm{6, backOffMin / 2}}},
		},
		"a result of old facts is closed": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Changed{facts("b2", "i2")}, Dialing, []Effect{Cancel{}, Dial{2, "i2", "b2"}}},
			{Connected{Session: 7, Boot: "b1", Class: Gateway, Try: 1}, Dialing, []Effect{Close{7, ErrReplaced}}},
			{Connected{Session: 8, Boot: "b2", Class: Gateway, Try: 2}, Up, []Effect{Use{8}}},
		},
		"a new boot ends the old session": {
			{Changed{Facts{Boot: "b1"}}, Awaited, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Changed{Facts{Boot: "b2"}}, Awaited, []Effect{Close{1, ErrRevoked}, Use{}, Cancel{}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway}, Awaited, []Effect{Close{2, ErrRevoked}}},
			{Connected{Session: 3, Boot: "b2", Class: Gateway}, Up, []Effect{Cancel{}, Use{3}}},
		},
		"same boot: the newer connection replaces the older": {
			{Changed{Facts{Boot: "b1"}}, Awaited, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway}, Up, []Effect{Close{1, ErrReplaced}, Cancel{}, Use{2}}},
			{Lost{Session: 1, Lived: long}, Up, nil},
		},
		"an instance moves": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Try: 1}, Up, []Effect{Use{1}}},
			{Changed{facts("b1", "i2")}, Dialing, []Effect{Close{1, ErrMoved}, Use{}, Cancel{}, Dial{3, "i2", "b1"}}},
		},
		"a worker without a boot is absent": {
			{Changed{facts("", "i1")}, Absent, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Absent, []Effect{Close{1, ErrRevoked}}},
			{Changed{Facts{Dials: true, Boot: "b1"}}, Absent, []Effect{Cancel{}}},
		},
		"a coordinator without a known boot is dialed": {
			{Changed{Facts{Dials: true, AnyBoot: true, Instance: "i1"}}, Dialing, []Effect{Cancel{}, Dial{1, "i1", ""}}},
			{Connected{Session: 1, Boot: "b9", Class: Gateway, Try: 1}, Up, []Effect{Use{1}}},
			{Changed{Facts{Dials: true, AnyBoot: true, Instance: "i1", Boot: "b9"}}, Up, nil},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

func TestChoiceScripts(t *testing.T) {
	up := scriptStep{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}}
	gateway := scriptStep{Connected{Session: 1, Boot: "b1", Class: Gateway, Try: 1}, Up, []Effect{Use{1}}}
	for name, script := range map[string][]scriptStep{
		"a better one takes over, the gateway's stays as standby": {
			up, gateway,
			{Connected{Session: 2, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{2}}},
			{Connected{Session: 3, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{3}, Retire{2}}},
			{Lost{Session: 3, Lived: findSteady}, Up, []Effect{Use{2}}},
			{Lost{Session: 2, Lived: findSteady}, Up, []Effect{Use{1}}},
		},
		"a worse one does not": {
			up, gateway,
			{Connected{Session: 2, Boot: "b1", Class: Relay}, Up, nil},
			{Moved{Session: 2, Class: DirectUDP}, Up, []Effect{Use{2}}},
			{Moved{Session: 2, Class: Relay}, Up, []Effect{Use{1}}},
		},
		"the standby takes over from one under suspicion, for as long": {
			up, gateway,
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Suspected{Session: 2, Suspect: true}, Up, []Effect{Use{1}}},
			{Suspected{Session: 1, Suspect: true}, Up, []Effect{Use{2}}},
			{Suspected{Session: 1, Suspect: false}, Up, []Effect{Use{1}}},
			{Suspected{Session: 2, Suspect: false}, Up, []Effect{Use{2}}},
		},
		"the standby dies and is dialed again": {
			up, gateway,
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Lost{Session: 1, Lived: steady}, Up, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Connected{Session: 4, Boot: "b1", Class: Gateway, Try: 3}, Up, nil},
		},
		"a new boot ends every session": {
			up, gateway,
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Changed{facts("b2", "i1")}, Dialing, []Effect{Close{1, ErrRevoked}, Close{2, ErrRevoked}, Use{}, Cancel{}, Dial{3, "i1", "b2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

func TestFindScripts(t *testing.T) {
	begun := scriptStep{Changed{finds("b1")}, Dialing, []Effect{Cancel{}, Find{1, true, "b1"}}}
	followed := scriptStep{Changed{Facts{Boot: "b1", Finds: true}}, Awaited, []Effect{Cancel{}, Nudge{}}}
	for name, script := range map[string][]scriptStep{
		"direct TCP is the end of the search": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 1}, Up, nil},
			{Quiet{}, Up, nil},
			{Lost{Session: 1, Lived: findSteady}, Dialing, []Effect{Use{}, Redial{"b1"}, Find{2, true, "b1"}}},
		},
		"direct UDP is improved on later": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 1}, Up, []Effect{ArmFind{1, improveMin}}},
			{FindTimer{1}, Up, []Effect{Find{2, true, "b1"}}},
			{FindEnded{Epoch: 1}, Up, nil},
			{FindEnded{Epoch: 2}, Up, []Effect{ArmFind{2, 2 * improveMin}}},
			{Quiet{}, Up, []Effect{Find{3, true, "b1"}}},
			{FindTimer{2}, Up, nil},
		},
		"bad luck with TCP gets one more try soon": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 1, LossOnly: true}, Up, []Effect{ArmFind{1, improveSoon}}},
			{FindTimer{1}, Up, []Effect{Find{2, true, "b1"}}},
			{FindEnded{Epoch: 2, LossOnly: true}, Up, []Effect{ArmFind{2, improveMin}}},
			{FindTimer{2}, Up, []Effect{Find{3, true, "b1"}}},
			{FindEnded{Epoch: 3, LossOnly: true}, Up, []Effect{ArmFind{3, 2 * improveMin}}},
		},
		"nothing found waits longer each time; the peer's wish does not": {
			begun,
			{FindEnded{Epoch: 1}, BackOff, []Effect{ArmFind{1, findMin / 2}}},
			{Quiet{}, BackOff, nil},
			{FindTimer{1}, Dialing, []Effect{Find{2, true, "b1"}}},
			{FindEnded{Epoch: 2, Jitter: 1}, BackOff, []Effect{ArmFind{2, 2 * findMin}}},
			{Nudged{Boot: "b0"}, BackOff, nil},
			{Nudged{Boot: "b1"}, Dialing, []Effect{Find{3, true, "b1"}}},
			{Nudged{Boot: "b1"}, Dialing, nil},
			{FindEnded{Epoch: 3, Jitter: 1}, BackOff, []Effect{ArmFind{3, 4 * findMin}}},
		},
		"a rendezvous that is back shortens a long wait, and nothing else": {
			begun,
			{FindEnded{Epoch: 1}, BackOff, []Effect{ArmFind{1, findMin / 2}}},
			{RendezvousUp{}, BackOff, nil},
			{FindTimer{1}, Dialing, []Effect{Find{2, true, "b1"}}},
			{FindEnded{Epoch: 2}, BackOff, []Effect{ArmFind{2, findMin}}},
			{FindTimer{2}, Dialing, []Effect{Find{3, true, "b1"}}},
			{FindEnded{Epoch: 3}, BackOff, []Effect{ArmFind{3, 2 * findMin}}},
			{RendezvousUp{}, BackOff, []Effect{ArmFind{4, findHope / 2}}},
			{RendezvousUp{}, BackOff, nil},
			{FindTimer{3}, BackOff, nil},
			{FindTimer{4}, Dialing, []Effect{Find{4, true, "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 4}, Up, []Effect{ArmFind{5, improveMin}}},
			{RendezvousUp{}, Up, nil},
		},
		"a path that comes and goes is not run after": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 1}, Up, nil},
			{Lost{Session: 1, Lived: findSteady / 2}, BackOff, []Effect{Use{}, Redial{"b1"}, ArmFind{1, findMin / 2}}},
		},
		"the path may carry another session while a search runs": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{Lost{Session: 1, Lived: steady}, Dialing, []Effect{Use{}, Redial{"b1"}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{2}}},
			{Lost{Session: 2, Lived: steady / 2}, Dialing, []Effect{Use{}}},
		},
		"a path that comes and goes is not redialed either": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{FindEnded{Epoch: 1}, Up, []Effect{ArmFind{1, improveMin}}},
			{Lost{Session: 1, Lived: 2 * steady}, BackOff, []Effect{Use{}, Redial{"b1"}, ArmFind{2, findMin / 2}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{2}}},
			{Lost{Session: 2, Lived: 2 * steady}, BackOff, []Effect{Use{}}},
		},
		"a flapping session takes no streams from the gateway": {
			begun,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}}},
			{Lost{Session: 1, Lived: 2 * steady}, Up, []Effect{Use{2}}},
			{Connected{Session: 3, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{3}}},
			{Lost{Session: 3, Lived: findSteady}, Up, []Effect{Use{2}, Redial{"b1"}}},
		},
		"only the side that dials makes another session": {
			followed,
			{Connected{Session: 1, Boot: "b1", Class: DirectUDP}, Up, []Effect{Use{1}}},
			{Lost{Session: 1, Lived: steady}, Awaited, []Effect{Use{}, Nudge{}}},
		},
		"another boot abandons the search": {
			begun,
			{Changed{finds("b2")}, Dialing, []Effect{Cancel{}, StopFind{}, Find{2, true, "b2"}}},
			{FindEnded{Epoch: 1}, Dialing, nil},
		},
		"a nudge hastens the gateway": {
			{Changed{facts("b1", "i1")}, Dialing, []Effect{Cancel{}, Dial{1, "i1", "b1"}}},
			{Failed{Try: 1}, BackOff, []Effect{Cancel{}, Arm{2, backOffMin / 2}}},
			{Nudged{Boot: "b1"}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
		},
		"the other side follows, newest epoch only": {
			followed,
			{Offered{Epoch: 4, Boot: "b1"}, Dialing, []Effect{Find{4, false, "b1"}}},
			{Offered{Epoch: 4, Boot: "b1"}, Dialing, nil},
			{Offered{Epoch: 3, Boot: "b1"}, Dialing, nil},
			{Offered{Epoch: 9, Boot: "b0"}, Dialing, nil},
			{Offered{Epoch: 5, Boot: "b1"}, Dialing, []Effect{Find{5, false, "b1"}}},
			{FindEnded{Epoch: 4}, Dialing, nil},
			{FindEnded{Epoch: 5}, Awaited, nil},
			{Quiet{}, Awaited, []Effect{Nudge{}}},
		},
		"another boot of the peer restarts the count": {
			followed,
			{Offered{Epoch: 4, Boot: "b1"}, Dialing, []Effect{Find{4, false, "b1"}}},
			{Changed{Facts{Boot: "b2", Finds: true}}, Awaited, []Effect{Cancel{}, StopFind{}, Nudge{}}},
			{Offered{Epoch: 5, Boot: "b1"}, Awaited, nil},
			{Offered{Epoch: 1, Boot: "b2"}, Dialing, []Effect{Find{1, false, "b2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

// A Link that has ended lets go of everything and takes part in nothing any more.
func TestNothingFollowsTheEnd(t *testing.T) {
	s, _ := State{}.Step(Changed{Facts: Facts{Boot: "b", Dials: true, Instance: "i", Finds: true}})
	s, _ = s.Step(Connected{Session: 1, Boot: "b", Class: DirectTCP})
	s, effects := s.Step(Ended{Reason: ErrRevoked})
	want := []Effect{Cancel{}, StopFind{}, Close{Session: 1, Reason: ErrRevoked}}
	if !slices.Equal(effects, want) || s.Phase() != Over {
		t.Errorf("the end: %v in phase %s, want %v in %s", effects, s.Phase(), want, Over)
	}
	for _, ev := range []Event{
		Changed{Facts: Facts{Boot: "c", Dials: true, Instance: "i"}}, Connected{Session: 2, Boot: "b", Class: Gateway},
		Wanted{}, Quiet{}, RendezvousUp{}, Nudged{Boot: "b"}, Ended{Reason: ErrIdle},
	} {
		after, effects := s.Step(ev)
		if used, _ := after.InUse(); len(effects) > 0 || used != 0 || after.Phase() != Over {
			t.Errorf("%T after the end: %v, session %d, phase %s", ev, effects, used, after.Phase())
		}
	}
}
