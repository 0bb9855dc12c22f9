package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/raced/synctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWaitingMessagesOfASearchAreJoined(t *testing.T) {
	c := func(lines ...string) signal.Message {
		return signal.Message{Type: signal.Candidates, Candidates: lines}
	}
	tcp := signal.Message{Type: signal.Candidates, TCP: []signal.TCPCandidate{{Kind: "host"}}, OneWayMicros: 7}
	bye := signal.Message{Type: signal.Bye}
	full := c(slices.Repeat([]string{"x"}, signal.MaxCandidates)...)

	more := make(chan signal.Message, outboxLen)
	for _, m := range []signal.Message{c("b"), tcp, {Type: signal.Candidates, Last: true}, full, c("c"), bye} {
		more <- m
	}
	got := takeReady([]signal.Message{{Type: signal.Offer, Candidates: []string{"a"}}}, more)
	if len(got) != 3 {
		t.Fatalf("%d messages, want 3: %+v", len(got), got)
	}
	offer := got[0]
	if offer.Type != signal.Offer || !slices.Equal(offer.Candidates, []string{"a", "b"}) || len(offer.TCP) != 1 || offer.OneWayMicros != 7 || !offer.Last {
		t.Errorf("the offer became %+v", offer)
	}
	if len(got[1].Candidates) != signal.MaxCandidates {
		t.Errorf("a full message became %+v", got[1])
	}
	if got[2].Type != signal.Bye {
		t.Errorf("the last is %+v, want the bye alone", got[2])
	}
}

// TestAByeWaitsForTheLastOfAHandshake: the Peer may use a stream that has not become a
// Session here yet.
func TestAByeWaitsForTheLastOfAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &search{name: "0123456789abcdef", ended: make(chan part, 4)}
		bye := signal.Message{Type: signal.Bye, Search: s.name}
		begin := time.Now()
		if done, err := s.message(t.Context(), bye); !done || err != nil || time.Since(begin) != 0 {
			t.Errorf("without a stream: done %v, error %v, after %v", done, err, time.Since(begin))
		}
		s.welcoming.Store(true)
		time.AfterFunc(time.Second, func() { s.ended <- part{name: partTCP} })
		if done, err := s.message(t.Context(), bye); !done || err != nil || time.Since(begin) != time.Second {
			t.Errorf("with a stream: done %v, error %v, after %v", done, err, time.Since(begin))
		}
		if s.message(t.Context(), bye); time.Since(begin) != time.Second+lingerLimit {
			t.Errorf("a stalled handshake blocks a search for %v", time.Since(begin))
		}
	})
}

// Another try soon is for bad luck: a translator that lets nothing in will not do better.
func TestUnluckySearches(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"found":                    {nil, false},
		"nothing comes in":         {fmt.Errorf("tcp: %w", punch.ErrNoConnection), false},
		"the peer has no TCP":      {errNoPeerTCP, false},
		"no reflector answered":    {errors.Join(fmt.Errorf("tcp: %w", punch.ErrNoCandidates)), true},
		"handshake broke off":      {errors.Join(fmt.Errorf("tcp: %w: %w", errNoDirect, io.EOF)), true},
		"handshake was still on":   {errors.Join(errors.New("udp"), errSlowSearch), true},
		"another search was begun": {context.Canceled, false},
	} {
		if got := lossOnly(c.err); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
