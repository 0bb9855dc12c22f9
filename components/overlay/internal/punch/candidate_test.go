package punch

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
)

func TestOVL10_ForbiddenCandidates(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.50.0.3", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "0.1.2.3",
		"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1",
		"255.255.255.255", "240.0.0.1", "100.127.3.4", "64:ff9b::7f00:1", "2002:7f00:1::1",
	} {
		for _, private := range []bool{true, false} {
			wantErr(t, allowedCandidate(netip.MustParseAddr(a), private), ErrCandidateForbidden)
		}
	}
	wantErr(t, allowedCandidate(netip.Addr{}, true), ErrCandidateForbidden)
	for _, a := range []string{"10.1.2.3", "172.16.0.1", "192.168.1.1", "fd00::1", "::ffff:10.0.0.1", "198.18.0.1"} {
		wantErr(t, allowedCandidate(netip.MustParseAddr(a), false), ErrCandidateForbidden)
		if err := allowedCandidate(netip.MustParseAddr(a), true); err != nil {
			t.Errorf("%s within its network: %v", a, err)
		}
	}
	for _, a := range []string{"5.9.8.1", "8.8.8.8", "2a00:1::1"} {
		if err := allowedCandidate(netip.MustParseAddr(a), false); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestOVL10_PrivateAddressesOnlyWithinTheSameNetwork(t *testing.T) {
	here := network{
		mapped:   []netip.Addr{netip.MustParseAddr("5.9.8.1")},
		attached: []netip.Prefix{netip.MustParsePrefix("10.1.0.7/16")},
		ip4:      true,
	}
	for name, c := range map[string]struct {
		offer, want []Candidate
	}{
		"on our own link":                {offer: []Candidate{host4("10.1.2.3:9")}, want: []Candidate{host4("10.1.2.3:9")}},
		"elsewhere":                      {offer: []Candidate{host4("10.9.2.3:9")}},
		"elsewhere, called mapped":       {offer: []Candidate{mapped4("10.9.2.3:9")}},
		"elsewhere, called listen":       {offer: []Candidate{{Listen, netip.MustParseAddrPort("10.9.2.3:9")}}},
		"behind our translator":          {offer: []Candidate{host4("10.9.2.3:9"), mapped4("5.9.8.1:5")}, want: []Candidate{host4("10.9.2.3:9"), mapped4("5.9.8.1:5")}},
		"behind another translator":      {offer: []Candidate{host4("10.9.2.3:9"), mapped4("5.9.8.2:5")}, want: []Candidate{mapped4("5.9.8.2:5")}},
		"public host of another network": {offer: []Candidate{host4("5.9.8.9:9")}},
		"loopback behind our translator": {offer: []Candidate{host4("127.0.0.1:9"), mapped4("5.9.8.1:5")}, want: []Candidate{mapped4("5.9.8.1:5")}},
		"IPv4 in IPv6 and itself":        {offer: []Candidate{mapped4("[::ffff:5.9.8.2]:5"), mapped4("5.9.8.2:5")}, want: []Candidate{mapped4("5.9.8.2:5")}},
		"a family that we have not":      {offer: []Candidate{mapped4("[2a00:1::1]:5")}},
		"no port":                        {offer: []Candidate{mapped4("5.9.8.2:0")}},
		"an unknown kind":                {offer: []Candidate{{"relay", netip.MustParseAddrPort("5.9.8.2:5")}}},
		"nothing":                        {offer: []Candidate{{}}},
		"one valid, one invalid":         {offer: []Candidate{{}, mapped4("5.9.8.2:5")}, want: []Candidate{mapped4("5.9.8.2:5")}},
	} {
		got, err := here.usable(c.offer, allowedCandidate, slog.New(slog.DiscardHandler))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if len(c.want) == 0 {
			wantErr(t, err, ErrNoCandidates)
		}
	}
}

// Where the reflectors themselves are private, so is everybody.
func TestPrivateMappedAddressesInAClosedNetwork(t *testing.T) {
	here := network{mapped: []netip.Addr{netip.MustParseAddr("198.18.0.1")}, ip4: true}
	offer := []Candidate{mapped4("198.18.0.2:5"), host4("10.9.2.3:9"), mapped4("127.0.0.1:7")}
	got, err := here.usable(offer, allowedCandidate, slog.New(slog.DiscardHandler))
	if err != nil || !reflect.DeepEqual(got, offer[:1]) {
		t.Fatalf("got %v %v, want %v", got, err, offer[:1])
	}
}

func host4(a string) Candidate   { return Candidate{Host, netip.MustParseAddrPort(a)} }
func mapped4(a string) Candidate { return Candidate{Mapped, netip.MustParseAddrPort(a)} }

func TestOVL09_AtMostEightCandidates(t *testing.T) {
	a, _ := pair(t, Config{})
	_, err := a.Connect(t.Context(), make([]Candidate, MaxCandidates+1), true, 0)
	wantErr(t, err, ErrCandidateForbidden)
	_, err = a.Connect(t.Context(), nil, true, 0)
	wantErr(t, err, ErrNoCandidates)
	var many []netip.AddrPort
	for i := range 20 {
		many = append(many, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(1000+i)))
	}
	l := gather(t, Config{Advertise: many, ListenPort: 9, Hosts: true})
	if n := len(l.Candidates()); n != MaxCandidates {
		t.Fatalf("offers %d, want %d", n, MaxCandidates)
	}
}

func TestCandidateAsJSON(t *testing.T) {
	in := []Candidate{mapped4("5.9.8.1:443"), {Listen, netip.MustParseAddrPort("[2a00:1::1]:8443")}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"kind":"mapped","addr":"5.9.8.1:443"},{"kind":"listen","addr":"[2a00:1::1]:8443"}]`; string(b) != want {
		t.Fatalf("got %s, want %s", b, want)
	}
	var out []Candidate
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Fatalf("got %v %v, want %v", out, err, in)
	}
}
