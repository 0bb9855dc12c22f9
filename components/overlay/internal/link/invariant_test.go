package link

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The following holds for any order of events. The Session in use lives, belongs to an
// admitted Boot, and has the best class. At most one Session of a class lives, and at
// most one is kept in addition to the used one. Every wait has a timer and stays within
// its bounds. Epochs only grow.
func TestInvariants(t *testing.T) {
	for seed := range uint64(3000) {
		w := world{r: rand.New(rand.NewPCG(seed, 1)), open: map[uint64]liveSession{}}
		for range 60 {
			ev := w.event()
			var effects []Effect
			w.state, effects = w.state.Step(ev)
			w.history = append(w.history, fmt.Sprintf("%#v -> %s %#v", ev, w.state.Phase(), effects))
			if fault := w.follow(effects); fault != "" {
				t.Fatalf("seed %d: %s\n%v", seed, fault, w.history)
			}
		}
	}
}

// world is the state that the shell would have.
type world struct {
	r       *rand.Rand
	state   State
	history []string
	open    map[uint64]liveSession // Sessions not closed
	inUse   uint64
	next    uint64

	dialing, armed   uint64
	epoch, findArmed uint64
}

func (w *world) event() Event {
	boot := []string{"b1", "b2"}[w.r.IntN(2)]
	switch w.r.IntN(12) {
	case 0:
		return Changed{Facts{
			Dials: w.r.IntN(2) == 0, AnyBoot: w.r.IntN(4) == 0, Finds: w.r.IntN(2) == 0,
			Boot:     []string{"", "b1", "b2"}[w.r.IntN(3)],
			Instance: []string{"", "i1", "i2"}[w.r.IntN(3)],
		}}
	case 1, 2, 3:
		w.next++
		c := Connected{Session: w.next, Boot: boot, Class: Relay + Class(w.r.IntN(4))}
		if c.Class == Gateway && w.r.IntN(2) == 0 {
			c.Try = w.dialing
		}
		w.open[w.next] = liveSession{boot: c.Boot, class: c.Class}
		return c
	case 4:
		return Failed{Try: w.dialing, Jitter: w.r.Float64()}
	case 5:
		id := uint64(w.r.IntN(int(w.next + 1)))
		delete(w.open, id)
		if id == w.inUse {
			w.inUse = 0
		}
		return Lost{Session: id, Lived: time.Duration(w.r.IntN(3)) * findSteady, Jitter: w.r.Float64()}
	case 6:
		return Timer{Try: w.armed}
	case 7:
		return Offered{Epoch: uint64(w.r.IntN(10)), Boot: boot}
	case 8:
		return Nudged{Boot: boot}
	case 9:
		return Quiet{}
	case 10:
		return FindEnded{Epoch: w.epoch, Jitter: w.r.Float64(), LossOnly: w.r.IntN(2) == 0}
	}
	return FindTimer{Number: w.findArmed}
}

func (w *world) follow(effects []Effect) string {
	for _, e := range effects {
		switch e := e.(type) {
		case Cancel:
			w.armed = 0
		case Dial:
			w.dialing = e.Try
		case Arm:
			w.armed = e.Try
			if e.After < backOffMin/2 || e.After > backOffMax {
				return fmt.Sprintf("wait of %v", e.After)
			}
		case Use:
			w.inUse = e.Session
		case Close:
			delete(w.open, e.Session)
		case Find:
			if e.Controlling && e.Epoch <= w.epoch && w.state.facts.Dials && w.state.find.boot == "" {
				return "an epoch was used twice"
			}
			w.epoch = e.Epoch
		case Redial:
			if !w.state.facts.Dials || e.Boot != w.state.facts.Boot {
				return fmt.Sprintf("a session with boot %q is made over a path", e.Boot)
			}
		case ArmFind:
			w.findArmed = e.Number
			if e.After < findMin/2 || e.After > improveMax {
				return fmt.Sprintf("wait of %v", e.After)
			}
		}
	}
	return w.fault()
}

func (w *world) fault() string {
	use, class := w.state.InUse()
	switch {
	case use != w.inUse:
		return fmt.Sprintf("the shell uses %d, the machine %d", w.inUse, use)
	case (w.state.Phase() == Up) != (use != 0):
		return fmt.Sprintf("phase %s with session %d in use", w.state.Phase(), use)
	case w.state.gateway.waiting && w.armed == 0:
		return "waits without a timer"
	case w.state.find.running && w.state.find.armed && w.state.facts.Dials:
		return "searches and waits"
	}
	kept := 0
	for id, h := range w.open {
		is := w.state.Class(id)
		switch {
		case is == NoClass:
			return fmt.Sprintf("session %d neither live nor closed", id)
		case !w.state.facts.Admits(h.boot):
			return fmt.Sprintf("session %d of boot %s lives", id, h.boot)
		case is > class:
			return fmt.Sprintf("session %d is better than the one in use", id)
		case is == class && id != use:
			return "two of a class"
		}
		if !w.state.Retired(id) {
			kept++
		}
	}
	if kept > 2 || len(w.open) > 0 && use == 0 {
		return fmt.Sprintf("%d sessions kept", kept)
	}
	return ""
}
