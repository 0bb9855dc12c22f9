package mailbox

import (
	"net/netip"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/raced/synctest"
)

func TestOffers(t *testing.T) {
	c, err := New(Config{Servers: []Server{{URL: "https://127.0.0.1:1"}}, Identity: func() (Identity, bool) { return Identity{}, false }})
	if err != nil {
		t.Fatal(err)
	}
	here, there := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")
	if c.Offers(here) {
		t.Error("offered before any server said so")
	}
	c.servers[0].setOffer(Offer{ICE: []ICEServer{
		{URL: "stun:198.51.100.7:3478"}, {URL: "turn:198.51.100.7:3478?transport=udp"}, {URL: "turn:nowhere?transport=udp"},
	}})
	if !c.Offers(here) || !c.Offers(netip.AddrFrom16(here.As16())) || c.Offers(there) {
		t.Errorf("offered at %s %v, at %s %v", here, c.Offers(here), there, c.Offers(there))
	}
	if n := len(c.servers[0].hosts); n != 1 {
		t.Errorf("%d addresses of one server", n)
	}
}

// A node that has communicated with all its Peers drops their certificates after a time.
func TestOldCertificatesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ses := &session{known: map[identity.ID]found{}}
		a, b := identity.ID{Slot: "a"}, identity.ID{Slot: "b"}
		ses.remember(a, knownBoot{boot: "1"})
		time.Sleep(findLife - time.Second)
		ses.remember(b, knownBoot{boot: "2"})
		ses.forgetOld()
		if len(ses.known) != 2 {
			t.Errorf("%d known, want 2", len(ses.known))
		}
		time.Sleep(time.Second)
		ses.forgetOld()
		if _, ok := ses.known[b]; !ok || len(ses.known) != 1 {
			t.Errorf("known are %v, want b alone", ses.known)
		}
	})
}
