package punch

import (
	"flag"
	"testing"
	"time"
)

var rateTime = flag.Duration("punch.rate", 0, "how long to measure the rate of each connection; 0 for not at all")

// TestRateAfterTheOpen prints the effect of a wrong round trip on the rate, and the
// effect of CheckRTT. The controlled side sends: its SYN is the earlier of a crossed
// pair, for which the kernel's round trip is most wrong.
func TestRateAfterTheOpen(t *testing.T) {
	if *rateTime == 0 {
		t.Skip("only with -punch.rate, such as 25s")
	}
	for _, c := range []struct {
		name  string
		kind  nat
		late  time.Duration
		check bool
		loss  float64
	}{
		{"staggered", drops, 0, false, 0},
		{"crossed", drops, -2 * labDelay, false, 0},
		{"crossed and checked", drops, -2 * labDelay, true, 0},
		{"refused first, checked", rejects, 0, true, 0},
		{"crossed and checked, loss", drops, -2 * labDelay, true, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, labDelay)
			l.rate = 100e6 / 8
			r := l.site(public).reflector()
			a, b := l.site(c.kind).peer(), l.site(c.kind).peer()
			x, err := cross(a, b, r, way{late: c.late})
			if err != nil {
				t.Fatal(err)
			}
			l.lose(c.loss)
			var checked report
			if c.check {
				checked = b.must(order{Do: "check", OneWay: labDelay})
			}
			var got, sent report
			together(func() { got = a.do(order{Do: "receive"}) },
				func() { sent = b.must(order{Do: "send", For: *rateTime}) })
			t.Logf("%s/%s, least round trip %v, changed %v; Mbps by the second %v; %.2f %% resent, %s, least round trip at the end %v",
				x.a.How, x.b.How, x.b.Info.MinRTT, checked.Changed, got.Mbps, 100*float64(sent.Info.Resent)/float64(sent.Info.Sent+1), sent.Info.Congestion, sent.Info.MinRTT)
		})
	}
}
