package peermap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// world is the content of the records, by Slot.
type world map[string]string

func (w world) peers() []*controlv1.Peer {
	var out []*controlv1.Peer
	for slot, boot := range w {
		out = append(out, &controlv1.Peer{Slot: slot, BootId: boot})
	}
	return out
}

// speaker is one process of a coordinator: it has its own map numbers, and knows the maps
// that it sent on each session.
type speaker struct {
	last    *Map
	version uint64
	given   map[int]*Map // by session
}

func (s *speaker) learn(w world, rng *rand.Rand) {
	s.version += 1 + rng.Uint64N(3)
	s.last = New(w.peers(), s.version, s.last)
}

func (s *speaker) answer(session int, known uint64, self string) *controlv1.GetPeersResponse {
	before := s.given[session]
	s.given[session] = s.last
	if before == nil || before.Version != known {
		before = nil
	}
	return s.last.Answer(before, self)
}

// An agent's map equals the coordinator's whole map, regardless of changes and lost
// answers in between. That also holds with coordinators that lag behind, that restart, or
// that are asked on new sessions.
func TestChangesMakeTheWholeMap(t *testing.T) {
	const self = "s3"
	var wholes, changes, unchanged int
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := world{self: "b", "coordinator-0": "b"}
		coordinators := make([]*speaker, 3)
		held, sessions := make([]Known, 3), make([]int, 3)
		for i := range coordinators {
			coordinators[i] = &speaker{given: map[int]*Map{}}
			coordinators[i].learn(w, rng)
		}
		for range 60 {
			i := rng.IntN(3)
			switch rng.IntN(8) {
			case 0: // a Boot comes, goes or changes, also the agent's own
				w[fmt.Sprint("s", rng.IntN(8))] = fmt.Sprint("boot", rng.IntN(3))
			case 1:
				delete(w, fmt.Sprint("s", rng.IntN(8)))
			case 2, 3: // a coordinator sees the records, sooner or later than the others
				coordinators[i].learn(w, rng)
			case 4: // a new session
				sessions[i]++
				held[i] = Known{}
			case 5: // the process restarts; its numbers may fall
				coordinators[i] = &speaker{version: rng.Uint64N(50), given: map[int]*Map{}}
				coordinators[i].learn(w, rng)
				sessions[i]++
				held[i] = Known{}
			case 6: // an answer is lost
				coordinators[i].answer(sessions[i], held[i].Version(), self)
			default:
				r := coordinators[i].answer(sessions[i], held[i].Version(), self)
				before := held[i].Version()
				changed, err := held[i].Apply(r)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				switch {
				case r.GetBase() == 0:
					wholes++
				case changed:
					changes++
				default:
					unchanged++
					if size := proto.Size(r); size > 12 || before != held[i].Version() {
						t.Fatalf("seed %d: an unchanged map costs %d bytes", seed, size)
					}
				}
				want := coordinators[i].last.Whole(self)
				if !slices.EqualFunc(held[i].Peers(), want, func(a, b *controlv1.Peer) bool { return proto.Equal(a, b) }) {
					t.Fatalf("seed %d: agent has %v, want %v", seed, held[i].Peers(), want)
				}
			}
		}
	}
	if wholes == 0 || changes == 0 || unchanged == 0 {
		t.Errorf("%d whole maps, %d changes, %d unchanged: not all were tried", wholes, changes, unchanged)
	}
}

func TestAnEqualMapIsTheSame(t *testing.T) {
	w := world{"a": "1", "b": "1"}
	first := New(w.peers(), 1, nil)
	if again := New(w.peers(), 2, first); again != first {
		t.Error("an equal map is another one")
	}
	w["b"] = "2"
	second := New(w.peers(), 3, first)
	if r := second.Answer(first, "x"); r.GetBase() != 1 || len(r.GetPeers()) != 1 || r.GetPeers()[0].GetSlot() != "b" || len(r.GetRemoved()) != 0 {
		t.Errorf("change %v", r)
	}
	if r := second.Answer(first, "b"); r.GetBase() != 1 || len(r.GetPeers()) != 0 {
		t.Errorf("the change of the member itself: %v", r)
	}
}

// An agent that received an invalid answer asks for the whole map.
func TestAnInvalidAnswerClearsTheMap(t *testing.T) {
	many := make([]*controlv1.Peer, Limit+1)
	for i := range many {
		many[i] = &controlv1.Peer{Slot: fmt.Sprint(i)}
	}
	for name, r := range map[string]*controlv1.GetPeersResponse{
		"of another map":          {Version: 9, Base: 7},
		"of a later map":          {Version: 7, Base: 8},
		"removes an unknown slot": {Version: 9, Base: 8, Removed: []string{"x"}},
		"too many":                {Version: 9, Base: 8, Peers: many},
		"too many at once":        {Version: 9, Peers: many},
	} {
		var h Known
		if _, err := h.Apply(&controlv1.GetPeersResponse{Version: 8, Peers: []*controlv1.Peer{{Slot: "a"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Apply(r); err == nil || h.Version() != 0 || len(h.Peers()) != 0 {
			t.Errorf("%s: %v, map %d", name, err, h.Version())
		}
	}
}
