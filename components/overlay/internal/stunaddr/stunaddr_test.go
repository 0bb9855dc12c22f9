package stunaddr

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pion/stun/v2"
)

// TestReadChecksTheLengthItself: an address that is cut is an error that names its length, in each attribute.
func TestReadChecksTheLengthItself(t *testing.T) {
	for _, attr := range []stun.AttrType{stun.AttrXORMappedAddress, stun.AttrXORPeerAddress} {
		for _, want := range []string{"192.0.2.1:7", "[2001:db8::1]:7", "192.0.2.1:0"} {
			addr := netip.MustParseAddrPort(want)
			m := new(stun.Message)
			if err := (&stun.XORMappedAddress{IP: net.IP(addr.Addr().AsSlice()), Port: int(addr.Port())}).AddToAs(m, attr); err != nil {
				t.Fatal(err)
			}
			if got, err := Read(m, attr); err != nil || got != addr {
				t.Errorf("%s of %s: %s, error %v", attr, want, got, err)
			}
		}
		cut := new(stun.Message)
		cut.Add(attr, []byte{0, 1, 0, 7})
		if got, err := Read(cut, attr); err == nil || !strings.Contains(err.Error(), "4 bytes are no address") {
			t.Errorf("%s that is cut: %s, error %v", attr, got, err)
		}
		if got, err := Read(new(stun.Message), attr); err == nil {
			t.Errorf("no %s: %s", attr, got)
		}
	}
}
