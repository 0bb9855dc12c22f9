package natlab

import "testing"

func TestTransitCountsAndShuts(t *testing.T) {
	if err := Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	l, err := New(t.Context(), Config{Watch: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	// Before there is anything to forward, too.
	if err := l.SetTransit(false); err != nil {
		t.Fatal(err)
	}
	p := echo(t, public(t, l, "p"))
	n := udp(t, behind(t, l, "h", PortRestricted, Link{}))
	if n.reaches(p, 100, false) {
		t.Error("an internet that is shut lets packets pass")
	}
	if err := l.SetTransit(true); err != nil {
		t.Fatal(err)
	}
	if !n.reaches(p, 100, true) {
		t.Error("it does not open again")
	}
	flows, err := l.Flows()
	if err != nil {
		t.Fatal(err)
	}
	want := []Flow{
		{From: "h", To: "p", Protocol: "udp", Passed: Count{1, 128}, Dropped: Count{1, 128}},
		{From: "p", To: "h", Protocol: "udp", Passed: Count{1, 128}},
	}
	if len(flows) != 2 || flows[0] != want[0] || flows[1] != want[1] {
		t.Errorf("flows %+v, want %+v", flows, want)
	}
	if other := open(t); other.SetTransit(true) == nil {
		t.Error("a lab without Watch changed the passing packets")
	}
}

func FuzzCounters(f *testing.F) {
	f.Add([]byte(`{"nftables":[{"set":{"name":"passed","elem":[{"elem":{"val":{"concat":["1.2.3.4","5.6.7.8","udp"]},"counter":{"packets":1,"bytes":2}}}]}}]}`))
	f.Add([]byte(`{"nftables":[{"set":{"name":"passed","elem":[{"elem":{"val":{"concat":["1.2.3.4","5.6.7.8",99]}}}]}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = eachCounter(raw, func(_ string, key [3]string, _ Count) {
			if key[0] == "" || key[1] == "" {
				t.Errorf("key %q", key)
			}
		})
	})
}
