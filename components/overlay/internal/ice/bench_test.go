package ice

import "testing"

// BenchmarkSearch is two searches on loopback, from Start to the first pair and
// closed again.
func BenchmarkSearch(b *testing.B) {
	ma, mb := testMux(b, loopbackConn(b)), testMux(b, loopbackConn(b))
	b.ReportAllocs()
	for b.Loop() {
		x, err := Start(b.Context(), testConfig(ma, true))
		if err != nil {
			b.Fatal(err)
		}
		y, err := Start(b.Context(), testConfig(mb, false))
		if err != nil {
			b.Fatal(err)
		}
		credentials(b, x, y)
		credentials(b, y, x)
		for _, way := range [][2]*Search{{x, y}, {y, x}} {
			if err := way[1].AddRemote(<-way[0].Candidates()); err != nil {
				b.Fatal(err)
			}
		}
		wait(b, x)
		_, _ = x.Close(), y.Close()
	}
}
