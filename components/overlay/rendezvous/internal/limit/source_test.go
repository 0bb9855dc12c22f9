package limit

import (
	"net/netip"
	"testing"
	"time"
)

func TestSource(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"198.51.100.7", "198.51.100.8", false},
		{"198.51.100.7", "::ffff:198.51.100.7", true},
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
	} {
		if same := Source(netip.MustParseAddr(c.a)) == Source(netip.MustParseAddr(c.b)); same != c.same {
			t.Errorf("%s and %s are one source: %v, want %v", c.a, c.b, same, c.same)
		}
	}
	if Source(netip.Addr{}).IsValid() {
		t.Error("no address has a source")
	}
}

func TestLine(t *testing.T) {
	var l Line
	now := time.Now()
	written := 0
	for i := range 30 {
		if l.Allow(now.Add(time.Duration(i) * 100 * time.Millisecond)) {
			written++
		}
	}
	if written != 3 {
		t.Errorf("%d lines in three seconds, want 3", written)
	}
	if !l.Allow(now.Add(-time.Hour)) {
		t.Error("a clock that was set back silences the log")
	}
}
