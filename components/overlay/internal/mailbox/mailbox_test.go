package mailbox

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/raced/synctest"
)

func say(epoch uint64) signal.Message {
	return signal.Message{Type: signal.Candidates, Search: "0123456789abcdef", Epoch: epoch}
}

// TestOVL04ChaosServer reorders, repeats, drops, changes and misdirects messages. Each
// message arrives unchanged, once, from its sender, and epochs only grow.
func TestOVL04ChaosServer(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	bad, good := newChaos(t), newChaos(t)
	var mu sync.Mutex
	var kept [][]byte
	bad.onSend = func(c *chaos, to string, envelope []byte) {
		mu.Lock()
		kept = append(kept, envelope)
		old := pick(kept)
		mu.Unlock()
		switch rand.IntN(6) {
		case 0: // dropped
		case 1: // twice
			c.deliver(to, envelope)
			c.deliver(to, envelope)
		case 2: // an old one before it
			c.deliver(to, old)
			c.deliver(to, envelope)
		case 3: // to everybody
			for _, slot := range []string{"db-0", "db-1", "db-2"} {
				c.deliver(slot, envelope)
			}
		case 4: // changed somewhere
			changed := bytes.Clone(envelope)
			changed[rand.IntN(len(changed))] ^= 1 << rand.IntN(8)
			c.deliver(to, changed)
		case 5: // instead of it, another's
			c.deliver(to, old)
		}
	}
	a, b, x := newMember(t, ca, "db-0", bad, good), newMember(t, ca, "db-1", bad, good), newMember(t, ca, "db-2", bad, good)
	senders := map[identity.ID]string{a.id: identity.BootID(a.cert.Leaf), x.id: identity.BootID(x.cert.Leaf)}
	last := map[identity.ID]uint64{}
	got := 0
	read := func() {
		for {
			select {
			case m := <-b.Messages():
				if senders[m.From.ID] != m.From.BootID {
					t.Fatalf("a message of %+v", m.From)
				}
				if m.Message.Epoch <= last[m.From.ID] {
					t.Fatalf("epoch %d of %s after %d", m.Message.Epoch, m.From.ID, last[m.From.ID])
				}
				last[m.From.ID] = m.Message.Epoch
				got++
			default:
				return
			}
		}
	}
	const rounds = 60
	for epoch := uint64(1); epoch <= rounds; epoch++ {
		for _, from := range []*member{a, x} {
			if err := from.Send(t.Context(), b.id, "", say(epoch)); err != nil {
				t.Fatalf("epoch %d: %v", epoch, err)
			}
		}
		read()
	}
	eventually(t, "the last message of both, by the honest server", func() bool {
		read()
		return last[a.id] == rounds && last[x.id] == rounds
	})
	t.Logf("%d of %d messages arrived", got, 2*rounds)
	for _, m := range []*member{a, x} {
		select {
		case in := <-m.Messages():
			t.Errorf("%s got a message for another: %+v", m.id.Slot, in)
		default:
		}
	}
	if st := b.Status()[0]; st.Forged == 0 || st.Duplicates == 0 {
		t.Errorf("nothing forged or repeated was noticed: %+v", st)
	}
}

// TestOVL04SplitView: a server names wrong Boots. Nothing is sealed to them.
func TestOVL04SplitView(t *testing.T) {
	ca, other := identitytest.NewAuthority(t, "test.cadre"), identitytest.NewAuthority(t, "test.cadre")
	liar := newChaos(t)
	var sent sync.Map
	liar.onSend = func(_ *chaos, to string, _ []byte) { sent.Store(to, true) }
	a, b := newMember(t, ca, "db-0", liar), newMember(t, ca, "db-1", liar)
	impostor := other.Issue(t, b.id)
	for name, boots := range map[string][]Boot{
		"another slot":    {{Boot: identity.BootID(a.cert.Leaf), Chain: a.cert.Certificate}},
		"another CA":      {{Boot: identity.BootID(impostor.Leaf), Chain: impostor.Certificate}},
		"another's chain": {{Boot: identity.BootID(b.cert.Leaf), Chain: impostor.Certificate}},
		"no certificate":  {{Boot: identity.BootID(b.cert.Leaf), Chain: [][]byte{{1, 2, 3}}}},
		"an empty answer": {},
	} {
		liar.onFind = func(*chaos, Frame) []Boot { return boots }
		if err := a.Send(t.Context(), b.id, "", say(1)); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error %v, want %v", name, err, ErrUnknown)
		}
	}
	if _, ok := sent.Load("db-1"); ok {
		t.Error("something was sealed for a wrong Boot")
	}
	liar.onFind = nil
	if err := a.Send(t.Context(), b.id, strings.Repeat("0", 64), say(1)); !errors.Is(err, ErrUnknown) {
		t.Errorf("another boot than was asked for: error %v, want %v", err, ErrUnknown)
	}
	if err := a.Send(t.Context(), b.id, identity.BootID(b.cert.Leaf), say(1)); err != nil {
		t.Errorf("the right boot: %v", err)
	}
}

// A message beyond the reader's queue is not acknowledged, so that the server keeps it.
func TestSlowReaderLosesNothing(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	a, b := newMember(t, ca, "db-0", server), newMember(t, ca, "db-1", server)
	for i := range waiting + 10 {
		if err := a.Send(t.Context(), b.id, "", say(uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a full reader", func() bool { return len(b.Messages()) == waiting })
	if got := server.acked("db-1"); got > waiting {
		t.Errorf("%d messages are acknowledged, at most %d fit", got, waiting)
	}
	// The client still answers and can be sent to the rest.
	for range waiting {
		<-b.Messages()
	}
	if err := a.Send(t.Context(), b.id, "", say(waiting+11)); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-b.Messages():
		if m.Message.Epoch <= waiting {
			t.Errorf("epoch %d again", m.Message.Epoch)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing comes any more")
	}
}

func TestOVL10OfferedServersAreFiltered(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	bad := []string{
		"stun:169.254.169.254:80", "stun:10.0.0.1:3478", "turn:192.168.1.1:3478?transport=udp", "stun:localhost:3478",
		"stun:[::1]:3478", "stun:[::ffff:10.0.0.1]:3478", "turn:8.8.8.8:3478?transport=sctp", "stun:8.8.8.8", "stun:8.8.8.8:0",
		"http://8.8.8.8:3478", "stun:8.8.8.8:3478/x", "stun:fe80::1%eth0", "stun:224.0.0.1:3478", "stun:100.64.0.1:3478", "",
	}
	good := []string{"stun:8.8.8.8:3478", "turn:8.8.8.8:3478?transport=udp", "stun:127.0.0.1:3478"} // the server is at 127.0.0.1
	for _, u := range append(append([]string{}, bad[:13]...), good...) {
		server.hello.ICE = append(server.hello.ICE, ICEServer{URL: u})
	}
	server.hello.Reflectors = []string{"10.0.0.1:80", "8.8.8.8:3478", "x", "127.0.0.1:3478"}
	a := newMember(t, ca, "db-0", server)
	var got []string
	for _, s := range a.ICEServers() {
		got = append(got, s.URL)
	}
	if strings.Join(got, " ") != strings.Join(good, " ") {
		t.Errorf("got %v, want %v", got, good)
	}
	if r := a.Reflectors(); strings.Join(r, " ") != "8.8.8.8:3478 127.0.0.1:3478" {
		t.Errorf("reflectors %v", r)
	}
	ses := &session{remote: netip.MustParseAddr("127.0.0.1")}
	for _, u := range bad {
		if host, ok := iceHost(u); ok && ses.mayReach(host) {
			t.Errorf("%q is taken", u)
		}
	}
}

func TestExpiredCredentialsAreNotOffered(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	server.hello.ICE = []ICEServer{
		{URL: "stun:8.8.8.8:3478"},
		{URL: "turn:8.8.8.8:3478?transport=udp", Username: "u", Password: "p", Expires: time.Now().Add(time.Second)},
	}
	if got := newMember(t, ca, "db-0", server).ICEServers(); len(got) != 1 || got[0].URL != "stun:8.8.8.8:3478" {
		t.Errorf("got %v, want STUN only", got)
	}
}

func TestNewRefusesBadServers(t *testing.T) {
	who := func() (Identity, bool) { return Identity{}, false }
	for name, c := range map[string]Config{
		"no identity": {},
		"http":        {Identity: who, Servers: []Server{{URL: "http://a"}}},
		"query":       {Identity: who, Servers: []Server{{URL: "https://a?x"}}},
		"user":        {Identity: who, Servers: []Server{{URL: "https://u@a"}}},
		"nothing":     {Identity: who, Servers: []Server{{}}},
		"bad CA":      {Identity: who, Servers: []Server{{URL: "https://a", CA: []byte("x")}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c, err := New(Config{Identity: who})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), identity.ID{}, "", say(1)); !errors.Is(err, ErrNoServer) {
		t.Errorf("send without an identity: error %v, want %v", err, ErrNoServer)
	}
}

func TestWrongServerCertificateIsRefused(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	server := newChaos(t)
	id := ca.ID("db", "db-0")
	cert := ca.Issue(t, id)
	c, err := New(Config{
		Identity: func() (Identity, bool) { return Identity{ID: id, Certificate: cert, Roots: ca.Pool}, true },
		Servers:  []Server{{URL: server.url, CA: ca.PEM}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.servers[0]
	if err := s.connect(t.Context(), Identity{ID: id, Certificate: cert, Roots: ca.Pool}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v, want one about the certificate", err)
	}
}

func FuzzWire(f *testing.F) {
	for _, frame := range []Frame{
		{Type: FrameFind, ID: 1, Group: "db", Slot: "db-0"},
		{Type: FrameSend, ID: 2, Envelope: []byte("x")},
		{Type: FrameMessage, Messages: []uint64{4}, Envelope: []byte("x")},
		{Type: FrameFound, ID: 3, Boots: []Boot{{Boot: strings.Repeat("a", 64), Chain: [][]byte{{1}}}}},
		{Type: FrameHello, ICE: []ICEServer{{URL: "stun:8.8.8.8:3478", Expires: time.Unix(1, 0).UTC()}}},
		{Type: FrameGoodbye, Code: CodeOverloaded, Text: "bye"},
		{Type: FrameRevoke, ID: 9, Revoked: []string{strings.Repeat("0", 64)}},
	} {
		b, err := frame.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"type":"ack","messages":[1],"extra":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ParseFrame(b)
		if err != nil {
			if !errors.Is(err, ErrWire) {
				t.Errorf("error %v, want %v", err, ErrWire)
			}
			return
		}
		again, err := frame.Encode()
		if err != nil {
			return // accepted text may become longer in its plain form
		}
		if _, err := ParseFrame(again); err != nil {
			t.Errorf("an accepted message is refused after encoding: %v", err)
		}
	})
}

func TestRevocationsAreSaidUntilTheyAreHeard(t *testing.T) {
	ca := identitytest.NewAuthority(t, "test.cadre")
	c := newChaos(t)
	codes := []Code{CodeRate, CodeOverloaded}
	heard := make(chan []string, 8)
	c.onRevoke = func(f Frame) Frame { // of one connection, so one at a time
		if len(codes) > 0 {
			code := codes[0]
			codes = codes[1:]
			return Frame{Type: FrameRefused, ID: f.ID, Code: code}
		}
		heard <- f.Revoked
		return Frame{Type: FrameDone, ID: f.ID}
	}
	m := newMember(t, ca, "db-0", c)
	for _, list := range [][]string{{strings.Repeat("a", 64)}, {strings.Repeat("b", 64)}, nil} {
		if err := m.Revoke(list); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if !slices.Equal(got, list) {
				t.Errorf("the rendezvous heard %v, want %v", got, list)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the rendezvous did not get %v", list)
		}
	}
	if err := m.Revoke(make([]string, MaxRevoked+1)); err == nil {
		t.Error("more than fits a frame is no error")
	}
}

func TestOthersCannotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		for range 3 {
			if !s.mayWarn("one") || !s.mayWarn("other") {
				t.Error("a first line is not written")
			}
			if s.mayWarn("one") {
				t.Error("a second line of one kind is written at once")
			}
			<-time.After(warnEvery)
		}
	})
}
